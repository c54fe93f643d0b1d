//! Properties, by `proptest`: each case has a seed of its own, which repeats this case alone.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};

/// Tries a property on as many cases as the configuration says, and shrinks a case that fails.
///
/// # Panics
///
/// The property does not hold.
pub fn property<S: Strategy>(config: Config, strategy: S, holds: impl Fn(S::Value) -> TestCaseResult) {
    crate::each(config.cases.into(), |seed| {
        let rng_seed = RngSeed::Fixed(seed);
        // The seed is printed, so there is no need for a file of failed cases.
        let config = Config { cases: 1, failure_persistence: None, rng_seed, ..config.clone() };
        if let Err(why) = TestRunner::new(config).run(&strategy, &holds) {
            panic!("{why}");
        }
    });
}

/// Properties as `proptest::proptest!` has them: of arguments that are `in` a strategy, or any of a type.
#[macro_export]
macro_rules! proptest {
    (#![proptest_config($config:expr)]
     $($(#[$meta:meta])* fn $name:ident($($arguments:tt)+) $body:block)*) => {$(
        $(#[$meta])*
        fn $name() {
            $crate::proptest!(@ $config, [] [] { $($arguments)+ } $body);
        }
    )*};
    // The patterns and strategies so far, and the arguments that are left.
    (@ $config:expr, [$($pattern:pat,)+] [$($strategy:expr,)+] {} $body:block) => {
        $crate::property($config, ($($strategy,)+), |($($pattern,)+)| {
            $body
            Ok(())
        })
    };
    (@ $config:expr, [$($patterns:tt)*] [$($strategies:tt)*]
     { $pattern:pat in $strategy:expr $(, $($rest:tt)*)? } $body:block) => {
        $crate::proptest!(@ $config, [$($patterns)* $pattern,] [$($strategies)* $strategy,] { $($($rest)*)? } $body)
    };
    (@ $config:expr, [$($patterns:tt)*] [$($strategies:tt)*]
     { $name:ident: $type:ty $(, $($rest:tt)*)? } $body:block) => {
        $crate::proptest!(@ $config, [$($patterns)* $name,] [$($strategies)* $crate::prelude::any::<$type>(),]
            { $($($rest)*)? } $body)
    };
    ($($(#[$meta:meta])* fn $name:ident($($arguments:tt)+) $body:block)*) => {
        $crate::proptest! {
            #![proptest_config($crate::prelude::ProptestConfig::default())]
            $($(#[$meta])* fn $name($($arguments)+) $body)*
        }
    };
}
