//! The generator: in its bounds, all that is possible, the same for the same seed.

use test_support::{Random, geometries};

#[test]
fn numbers_repeat_with_their_seed_and_no_other() {
    let numbers = |seed| {
        let mut random = Random::new(seed);
        [(); 4].map(|()| random.bits())
    };
    for seed in [0, 1, 2, u64::MAX - 1, u64::MAX] {
        assert_eq!(numbers(seed), numbers(seed));
        assert_ne!(numbers(seed), numbers(seed.wrapping_add(1)));
        assert!(!numbers(seed).contains(&0), "{seed:#x}");
    }
}

#[test]
fn each_choice_comes_about_as_often_as_another() {
    test_support::each(1, |seed| {
        let mut random = Random::new(seed);
        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[random.index(7)] += 1;
        }
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
        let one_in = (0..80_000).filter(|_| random.one_in(8)).count();
        assert!((9_000..11_000).contains(&one_in), "{one_in}");
        let high = (0..10_000).map(|_| random.fraction()).filter(|f| (0.5..1.0).contains(f)).count();
        assert!((4_500..5_500).contains(&high), "{high}");
    });
}

#[test]
fn no_geometry_comes_twice() {
    let all = geometries();
    for (n, g) in all.iter().enumerate() {
        assert!(!all[..n].contains(g), "{g:?}");
    }
}
