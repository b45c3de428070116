// Which element types this processor multiplies matrices of by itself. Owns the question alone: what is done where it
// does not is the layers' choice (`models/segment/products.hpp`), what that costs the cost model's
// (`plan/choose/cost.hpp`).
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string_view>

#include "core/dtype.hpp"

namespace troupe::core {

/// Whether the vectors of an x86 processor are 512 bits wide. ATEN_CPU_CAPABILITY, by which LibTorch is told to be
/// content with less (`avx2`, `default`), is obeyed, so one machine can be tried as both kinds. Constant in a process.
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

/// Whether the processor has instructions for products of this type, so that a library's beat fp32's. On x86 that is
/// AVX512_BF16 (which processors with AMX have, too) for bf16 and AVX512_FP16 for fp16; what else there is only
/// converts on the way to fp32 products. On other processors LibTorch knows best: true.
inline bool multiplies_natively(dtype type) {
#if defined(__x86_64__)
  if (type == dtype::bf16) return has_wide_vectors() && __builtin_cpu_supports("avx512bf16");
  if (type == dtype::f16) {  // not every compiler knows its name
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_wide_vectors() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0;
  }
#endif
  return true;
}

}  // namespace troupe::core
