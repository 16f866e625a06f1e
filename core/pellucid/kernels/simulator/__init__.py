"""A simulator of kernels: memories, semaphores and copies of several devices and cores, which run beside each other."""
