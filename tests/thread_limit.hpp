// Limits the threads and processes of a test's child, as `ulimit -u` and containers do.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>

namespace troupe::tests {

/// Returns a user id that no other process uses, so that the limit counts only the child's threads.
inline uid_t user_of_one() { return static_cast<uid_t>(1000000000) + static_cast<uid_t>(::getpid()); }
inline constexpr uid_t nobody = 65534;  // user id used instead in a container that maps too few user ids

inline void limit_threads(rlim_t n) {
  const rlimit limit{n, n};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0) ::_exit(125);
}

/// Limits threads in a child that will call exec. The limit does not bind root: the function changes the real user and
/// drops the two capabilities that lift the limit. The child can still read all files.
inline void allow_threads_after_exec(rlim_t n) {
  if (::geteuid() == 0) {
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
    if (::setresuid(user_of_one(), 0, 0) != 0 && ::setresuid(nobody, 0, 0) != 0) ::_exit(124);
  }
  limit_threads(n);
}

/// Limits threads in a child that continues without exec. If the child is root, it loses root's rights.
inline void allow_threads(rlim_t n) {
  if (::geteuid() == 0) {
    const uid_t user = user_of_one();
    if (::setresuid(user, user, user) != 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(124);
  }
  limit_threads(n);
}

}  // namespace troupe::tests
