#include "eval/sandbox_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/assert.h"

#define X32_BIT 0x40000000u

/* Everything else is bounded by limits and namespaces.  clone() is looked at closer. */
static const uint32_t refused[] = {
    /* Other processes; exec by itself is harmless, for the limits and this filter stay. */
    SYS_fork, SYS_vfork,
    /* Memory that no limit counts. */
    SYS_memfd_create, SYS_memfd_secret, SYS_shmget, SYS_msgget, SYS_semget, SYS_io_uring_setup,
    /* What has no use here, and much code in the kernel behind it. */
    SYS_socket, SYS_socketpair, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root,
    SYS_fsopen, SYS_open_tree, SYS_move_mount, SYS_ptrace, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_pidfd_getfd};

#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))

unsigned gp_sandbox_filter(struct sock_filter out[GP_SANDBOX_FILTER_MAX])
{
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM, unknown = SECCOMP_RET_ERRNO | ENOSYS;
    unsigned n = 0;

    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(arch));
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr));
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, unknown);
    /* Its flags are in memory, where a filter cannot look; glibc goes on with clone(). */
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, unknown);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        unsigned left = (unsigned)(sizeof refused / sizeof *refused - i);
        /* To the last instruction: past the other calls and past four that look at clone(). */
        out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
                                                (uint8_t)(left + 3), 0);
    }
    /* A thread is no process of its own. */
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(args[0]));
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no);
    gp_assert(n <= GP_SANDBOX_FILTER_MAX);
    return n;
}
