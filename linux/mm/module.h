/* SPDX-License-Identifier: GPL-2.0 */
/* A module that is loaded and unloaded: code, constants and data. */
#include <linux/init.h>
#include <linux/module.h>

static const char text[3 * 4096] = "constants";
static char data[5 * 4096] = "data";

static int __init module_test_init(void)
{
	data[sizeof(data) - 1] = text[0];
	return 0;
}
module_init(module_test_init);

static void __exit module_test_exit(void)
{
	WARN_ON(data[sizeof(data) - 1] != text[0]);
}
module_exit(module_test_exit);

MODULE_DESCRIPTION("Test of the linear map");
MODULE_LICENSE("GPL");
