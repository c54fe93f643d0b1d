// SPDX-License-Identifier: GPL-2.0
/*
 * What programs do that changes the linear map, or reads its tables: secret
 * memory, filters that become code, and another kernel. Built with the kernel's
 * nolibc.
 *
 *	program secretmem	takes secret memory, writes, reads, gives it back
 *	program bpf		attaches and detaches filters in a loop
 *	program crash LINE	loads the kernel that runs after a panic
 *	program kexec LINE	loads the kernel that runs after a restart
 *	program restart		starts that kernel
 */
#include <asm/socket.h>
#include <linux/filter.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <linux/resource.h>
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
	const struct rlimit64 all = { RLIM64_INFINITY, RLIM64_INFINITY };
	const long size = 16 << 20;
	int round;

	check(syscall(__NR_prlimit64, 0, RLIMIT_MEMLOCK, &all, NULL), "prlimit64");

	for (round = 0; round < 3; round++) {
		int fd = syscall(__NR_memfd_secret, 0);
		char *at;
		long i;

		/* Some releases have none if protections of single pages never change. */
		if (fd < 0 && errno == ENOSYS) {
			printf("program: no secret memory\n");
			return;
		}
		check(fd, "memfd_secret");
		check(syscall(__NR_ftruncate, fd, size), "ftruncate");
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

/* Loaded, unloaded, and loaded again. LINE is the kernel's command line. */
static void load(const char *line, int flags)
{
	int kernel = check(open("/next/Image", O_RDONLY), "Image");
	int initramfs = check(open("/next/initramfs", O_RDONLY), "initramfs");
	/* Not in the arguments: a call there would change registers of the others. */
	size_t length = strlen(line) + 1;
	int round;

	for (round = 0; round < 2; round++) {
		check(syscall(__NR_kexec_file_load, 0, 0, 0, NULL,
			      flags | KEXEC_FILE_UNLOAD), "unload");
		check(syscall(__NR_kexec_file_load, kernel, initramfs,
			      length, line, flags), "load");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "secretmem"))
		secretmem();
	else if (argc == 2 && !strcmp(argv[1], "bpf"))
		bpf();
	else if (argc == 3 && !strcmp(argv[1], "crash"))
		load(argv[2], KEXEC_FILE_ON_CRASH);
	else if (argc == 3 && !strcmp(argv[1], "kexec"))
		load(argv[2], 0);
	else if (argc == 2 && !strcmp(argv[1], "restart"))
		check(reboot(LINUX_REBOOT_CMD_KEXEC), "restart");
	else
		return 2;
	return 0;
}
