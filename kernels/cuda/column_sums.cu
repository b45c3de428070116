#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/column_runs.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/scratch.cuh"

namespace troupe::kernels::cuda {
namespace {

template <int N, class T, class Out>
core::result<void> sum_columns(const stored_rows<T>& x, uint64_t rows, uint64_t width, Out* out, stream on) {
  const uint64_t runs = runs_of(rows), across = core::div_up(width, N);
  if (runs == 1) {
    column_runs_kernel<N><<<column_blocks(across), column_threads, 0, on>>>(x, rows, width, out, width);
    return launched("column_sums");
  }
  auto room = scratch::take(std::max<uint64_t>(runs, 1) * width * sizeof(float), on, "column_sums");
  if (!room) return core::fail(room.error());
  auto* const sums = room->template as<float>();
  column_runs_kernel<N><<<column_blocks(runs * across), column_threads, 0, on>>>(x, rows, width, sums, width);
  add_runs_kernel<<<column_blocks(width), column_threads, 0, on>>>(sums, runs, width, width, out);
  return launched("column_sums");
}

}  // namespace

core::result<void> column_sums(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                               std::byte* out, core::dtype out_type, stream on) {
  for (const auto t : {type, out_type})
    if (auto fits = in_fp32("column_sums", t); !fits) return fits;
  if (width == 0) return {};
  return with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    return with_fp32_dtype(out_type, [&]<class Out>(std::type_identity<Out>) {
      constexpr int n = access_elements<T>;
      const stored_rows<T> in{reinterpret_cast<const T*>(x), row_stride};
      auto* const to = reinterpret_cast<Out*>(out);
      return allow_packs<n>(in.x) && row_stride % n == 0 ? sum_columns<n>(in, rows, width, to, on)
                                                         : sum_columns<1>(in, rows, width, to, on);
    });
  });
}

}  // namespace troupe::kernels::cuda
