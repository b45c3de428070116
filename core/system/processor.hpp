// Detects the element types for which this processor has matrix instructions. Owns only the detection:
// `models/segment/products.hpp` chooses the alternative for other types, and `plan/choose/cost.hpp` estimates its cost.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string_view>

#include "core/dtype.hpp"

namespace troupe::core {

/// True if the vectors of an x86 processor are 512 bits wide. ATEN_CPU_CAPABILITY, which limits LibTorch to narrower
/// vectors (`avx2`, `default`), is obeyed, so one machine can be tested as both kinds. Constant in a process.
inline bool has_wide_vectors() {
#if defined(__x86_64__)
  static const bool answer = [] {
    const char* limit = std::getenv("ATEN_CPU_CAPABILITY");
    const bool allowed =
        limit == nullptr || (std::string_view(limit) != "avx2" && std::string_view(limit) != "default");
    return allowed && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }();
  return answer;
#else
  return false;
#endif
}

/// True if the processor has instructions for products of this type, so that a library computes them faster than fp32
/// products. On x86 these are AVX512_BF16 (which processors with AMX have, too) for bf16 and AVX512_FP16 for fp16;
/// other x86 instructions only convert elements for fp32 products. On other processors the choice is LibTorch's, and
/// the result is true.
inline bool multiplies_natively(dtype type) {
#if defined(__x86_64__)
  if (type == dtype::bf16) return has_wide_vectors() && __builtin_cpu_supports("avx512bf16");
  if (type == dtype::f16) {  // CPUID bit of AVX512_FP16, whose name not every compiler's __builtin_cpu_supports accepts
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_wide_vectors() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0;
  }
#endif
  return true;
}

}  // namespace troupe::core
