// Sets ASAN_OPTIONS for the programs that a test starts, if they are built with the address sanitizer; otherwise the
// variable has no effect.
#pragma once

#include <cstdlib>
#include <string>

namespace troupe::tests {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool has_address_sanitizer = true;
#else
inline constexpr bool has_address_sanitizer = false;
#endif

/// Option that skips the search for leaks at exit, which requires a thread and /proc.
inline constexpr const char* no_leak_check = "detect_leaks=0";
/// Option that permits LD_PRELOAD libraries to be loaded before the sanitizer's runtime.
inline constexpr const char* any_link_order = "verify_asan_link_order=0";
/// Options that make the sanitizer return freed memory at once and keep no stack traces of allocations.
inline constexpr const char* no_kept_memory =
    "quarantine_size_mb=0:thread_local_quarantine_size_kb=0:malloc_context_size=0:detect_stack_use_after_return=0";

inline void add_sanitizer_options(const std::string& more) {
  const char* const given = std::getenv("ASAN_OPTIONS");
  ::setenv("ASAN_OPTIONS", (std::string(given == nullptr ? "" : given) + ":" + more).c_str(), 1);
}

}  // namespace troupe::tests
