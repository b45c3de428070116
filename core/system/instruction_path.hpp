// Returns names, for messages, of the vector instructions that are used on this processor. Owns the names; Highway's
// dispatch (for Troupe's kernels) and LibTorch choose the instructions.
#pragma once

#include <string>

#include "core/system/processor.hpp"

namespace troupe::core {

/// Returns the vector instructions that Troupe's kernels use: "AVX-512", "AVX2", "NEON" or "no vectors".
inline std::string kernel_instructions() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "AVX-512";
  return avx2 ? "AVX2" : "no vectors";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "no vectors";
#endif
}

/// Returns the vector instructions of the kernels, such as "AVX-512"; if LibTorch uses narrower ones, for example
/// because of ATEN_CPU_CAPABILITY, "AVX-512, LibTorch AVX2".
inline std::string instruction_path() {
  std::string out = kernel_instructions();
#if defined(__x86_64__)
  const char* const limit = std::getenv("ATEN_CPU_CAPABILITY");
  const bool is_plain = limit != nullptr && std::string_view(limit) == "default";
  const std::string library = has_wide_vectors()                            ? "AVX-512"
                              : !is_plain && __builtin_cpu_supports("avx2") ? "AVX2"
                                                                            : "no vectors";
  if (library != out) out += ", LibTorch " + library;
#endif
  return out;
}

}  // namespace troupe::core
