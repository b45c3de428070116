// Tests that the device's sums over rows, of columns and of groups of rows, have the CPU's bits.
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/scratch_memory.hpp"
#include "kernels/sums/column_sums.hpp"
#include "kernels/sums/grouped_sums.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(row_sums)

namespace {

void compare_columns(core::dtype type, core::dtype out_type, uint64_t rows, uint64_t width, uint64_t stride,
                     uint64_t shift = 0) {
  const auto x = hard_bytes(type, rows * stride, rows + width);
  std::vector<std::byte> wanted(width * core::size_of(out_type));
  kernels::column_sums(x.data(), type, rows, width, stride, wanted.data(), out_type);
  device_array<std::byte> in(x, shift * core::size_of(type)),
      out(std::vector<std::byte>(wanted.size(), std::byte{7}), shift * core::size_of(out_type));
  require(cuda::column_sums(in.data(), type, rows, width, stride, out.data(), out_type, test_stream()));
  BOOST_TEST_CONTEXT(rows << " rows of " << width << " of " << stride << " " << core::name_of(type) << ", shifted by "
                          << shift)
  require_same(out_type, out.back(), wanted);
}

/// Compares the device's sums of groups of `sizes` rows with the CPU's; the rows of a group are at random indices.
void compare_groups(core::dtype type, uint64_t width, const std::vector<uint64_t>& sizes, uint64_t shift = 0) {
  std::vector<int64_t> begin{5};  // the five rows before belong to groups of another rank
  for (const uint64_t size : sizes) begin.push_back(begin.back() + static_cast<int64_t>(size));
  std::vector<int64_t> order(static_cast<size_t>(begin.back()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(width));
  const auto x = awkward_bytes(type, order.size() * width, width);
  std::vector<std::byte> wanted(sizes.size() * width * core::size_of(type));
  kernels::grouped_sums(x.data(), type, width, {order.data(), begin.data(), sizes.size()}, wanted.data());
  device_array<std::byte> rows(x, shift * core::size_of(type)),
      out(std::vector<std::byte>(wanted.size(), std::byte{7}), shift * core::size_of(type));
  device_array<int64_t> in_order(order), begins(begin);
  require(cuda::grouped_sums(rows.data(), type, width, {in_order.data(), begins.data(), sizes.size()}, out.data(),
                             test_stream()));
  BOOST_TEST_CONTEXT(sizes.size() << " groups of rows of " << width << " " << core::name_of(type) << ", shifted by "
                                  << shift)
  require_same(type, out.back(), wanted);
}

/// Allocator of scratch memory that counts what it has lent.
struct counting_scratch {
  static inline int lent = 0, taken = 0;
  counting_scratch() {
    lent = taken = 0;
    used_scratch() = {.take = [](size_t bytes, CUstream_st*) -> core::result<void*> {
                        void* out = nullptr;
                        require(cudaMalloc(&out, bytes), "allocation");
                        ++lent, ++taken;
                        return out;
                      },
                      .give =
                          [](void* memory, CUstream_st* on) {
                            require(cudaStreamSynchronize(on), "kernel");
                            require(cudaFree(memory), "release");
                            --lent;
                          }};
  }
  ~counting_scratch() { used_scratch() = {}; }
  counting_scratch(const counting_scratch&) = delete;
  counting_scratch& operator=(const counting_scratch&) = delete;
};

}  // namespace

BOOST_AUTO_TEST_CASE(memory_between_stages_is_the_programs_and_given_back) {
  const counting_scratch scratch;
  compare_columns(core::dtype::f32, core::dtype::f32, 300, 24, 24);
  BOOST_TEST(counting_scratch::taken == 1);
  BOOST_TEST(counting_scratch::lent == 0);
  used_scratch().take = [](size_t, CUstream_st*) -> core::result<void*> {
    return core::fail(core::error_kind::limit, "out of the GPU's memory");
  };
  device_array<float> in(std::vector<float>(300 * 24)), out(std::vector<float>(24));
  const auto refused = cuda::column_sums(reinterpret_cast<std::byte*>(in.data()), core::dtype::f32, 300, 24, 24,
                                         reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, test_stream());
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::limit));
  BOOST_TEST(refused.error().text.find("CUDA kernel column_sums: wanted ") == 0U, refused.error().text);
  BOOST_TEST(refused.error().text.find(" bytes of scratch memory: out of the GPU's memory") != std::string::npos,
             refused.error().text);
}

BOOST_AUTO_TEST_CASE(sums_of_columns_of_every_type_and_shape_have_the_cpus_bits) {
  for (const auto type : fp32_dtypes)
    for (const auto out_type : fp32_dtypes)
      for (const uint64_t rows : {0U, 1U, 63U, 64U, 65U, 300U})
        for (const uint64_t width : {1U, 5U, 8U, 24U, 67U}) {
          compare_columns(type, out_type, rows, width, width);
          compare_columns(type, out_type, rows, width, width + 3);
        }
}

BOOST_AUTO_TEST_CASE(sums_of_columns_have_the_cpus_bits_where_a_thread_takes_several_and_where_arrays_begin_anywhere) {
  for (const auto type : fp32_dtypes) {
    compare_columns(type, core::dtype::f32, 200, 2310, 2312);
    for (uint64_t shift = 1; shift < 9; ++shift) compare_columns(type, type, 130, 40, 48, shift);
  }
}

BOOST_AUTO_TEST_CASE(sums_of_groups_of_every_type_and_size_have_the_cpus_bits) {
  const std::vector<uint64_t> sizes{1, 0, 3, 64, 65, 1, 9, 257, 2, 63, 0, 1, 300, 1, 1, 8, 7, 66, 1, 513};
  for (const auto type : fp32_dtypes)
    for (const uint64_t width : {1U, 7U, 8U, 33U, 64U, 72U, 130U}) compare_groups(type, width, sizes);
}

BOOST_AUTO_TEST_CASE(rows_of_groups_may_begin_at_any_element) {
  for (const auto type : fp32_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift) compare_groups(type, 24, {1, 70, 3}, shift);
}

BOOST_AUTO_TEST_CASE(no_groups_write_nothing) {
  for (const auto type : fp32_dtypes) compare_groups(type, 24, {});
}

BOOST_AUTO_TEST_CASE(fp64_is_refused_by_name) {
  for (const auto& refused :
       {cuda::column_sums(nullptr, core::dtype::f64, 1, 1, 1, nullptr, core::dtype::f64, test_stream()),
        cuda::grouped_sums(nullptr, core::dtype::f64, 1, {}, nullptr, test_stream())}) {
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(refused.error().text.find("wanted f32, bf16 or f16, got f64") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
