// SPDX-License-Identifier: GPL-2.0
/*
 * What programs do that changes the linear map: secret memory, and filters
 * that become code. Built with the kernel's nolibc.
 *
 *	program secretmem	takes secret memory, writes, reads, gives it back
 *	program bpf		attaches and detaches filters in a loop
 */
#include <asm/socket.h>
#include <linux/filter.h>
#include <linux/socket.h>

#define AF_UNIX 1
#define SOCK_DGRAM 2

static long check(long result, const char *what)
{
	if (result < 0) {
		printf("program: %s: error %d\n", what, errno);
		exit(1);
	}
	return result;
}

static void secretmem(void)
{
	const long size = 1 << 20;
	int round;

	for (round = 0; round < 20; round++) {
		int fd = check(syscall(__NR_memfd_secret, 0), "memfd_secret");
		char *at;
		long i;

		check(ftruncate(fd, size), "ftruncate");
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		check(at == MAP_FAILED ? -1 : 0, "mmap");
		for (i = 0; i < size; i += 4096)
			at[i] = i >> 12;
		for (i = 0; i < size; i += 4096)
			check(at[i] == (char)(i >> 12) ? 0 : -1, "contents");
		munmap(at, size);
		close(fd);
	}
}

/* Loads the length, and lets it through. */
static struct sock_filter filter[] = {
	{ 0x80, 0, 0, 0 },
	{ 0x16, 0, 0, 0 },
};

static void bpf(void)
{
	struct sock_fprog program = { .len = 2, .filter = filter };
	int pair[2], round;
	char byte = 0;

	check(syscall(__NR_socketpair, AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
	for (round = 0; round < 200; round++) {
		check(syscall(__NR_setsockopt, pair[1], SOL_SOCKET, SO_ATTACH_FILTER,
			      &program, sizeof(program)), "attach");
		check(write(pair[0], "x", 1), "write");
		check(read(pair[1], &byte, 1), "read");
		check(byte == 'x' ? 0 : -1, "byte");
		check(syscall(__NR_setsockopt, pair[1], SOL_SOCKET, SO_DETACH_FILTER,
			      &round, sizeof(round)), "detach");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "secretmem"))
		secretmem();
	else if (argc == 2 && !strcmp(argv[1], "bpf"))
		bpf();
	else
		return 2;
	return 0;
}
