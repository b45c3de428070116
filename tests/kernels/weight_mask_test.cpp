#include "kernels/compress/weight_mask.hpp"

#include <limits>

#include "kernels/compress/pruning.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(weight_mask)

namespace {

// The number of elements is not a multiple of eight, so the last mask byte is partial.
constexpr uint64_t rows = 21, columns = 13;

/// Returns the transpose of the matrix.
std::vector<float> transposed(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < columns; ++c) out[c * rows + r] = x[r * columns + c];
  return out;
}

template <class T>
std::vector<T> masked(std::vector<T> x, core::dtype type, const mask_bits& bits, uint64_t first) {
  apply_mask(reinterpret_cast<std::byte*>(x.data()), type, x.size(), bits, first);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_matrix_and_its_transpose_keep_the_same_elements_and_rows) {
  auto weight = awkward_floats(rows * columns, 3);
  for (size_t i = 0; i < weight.size(); i += 4) weight[i] = weight[i / 2];  // creates equal weights
  const masked_matrix here{rows, columns, false}, there{rows, columns, true};
  for (const uint64_t kept : {uint64_t{1}, uint64_t{100}, rows * columns}) {
    const auto bits = largest_elements(here, weight, kept);
    BOOST_TEST(kept_in(bits, rows * columns) == kept);
    BOOST_TEST((bits == largest_elements(there, transposed(weight), kept)));
  }
  for (const uint64_t kept : {uint64_t{1}, uint64_t{9}, rows})
    BOOST_TEST((largest_rows(here, weight, kept) == largest_rows(there, transposed(weight), kept)));
}

BOOST_AUTO_TEST_CASE(masks_of_elements_rows_and_heads_drop_what_all_of_them_together_drop) {
  const auto of_elements = packed_mask(std::vector<uint8_t>{1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  const auto of_rows = packed_mask(std::vector<uint8_t>{1, 1, 0});
  const auto of_heads = packed_mask(std::vector<uint8_t>{0, 1});
  for (const bool lies_transposed : {false, true}) {
    const masked_matrix m{3, 4, lies_transposed};
    auto all = whole_mask(m.elements());
    and_elements(m, of_elements, all);
    and_rows(m, of_rows, all);
    and_heads(m, of_heads, 2, all);
    for (uint64_t r = 0; r < 3; ++r)
      for (uint64_t c = 0; c < 4; ++c) {
        const bool wanted = is_kept(of_elements, r * 4 + c) && r < 2 && c >= 2;
        BOOST_TEST(is_kept(all, lies_transposed ? c * 3 + r : r * 4 + c) == wanted, r << ", " << c);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_share_has_the_bits_of_its_elements_and_keeps_its_padding) {
  const std::vector<int64_t> shape{10, 9};
  std::vector<uint8_t> keep(90);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = i % 3 == 0 || i % 7 == 1 ? 1 : 0;
  const auto whole = packed_mask(keep);
  for (const core::parameter_cut& cut : {core::parameter_cut{core::tp_style::column, 0, {{5, 4, 1}}},
                                         core::parameter_cut{core::tp_style::row, 1, {{8, 1, 0}}},
                                         core::parameter_cut{core::tp_style::column, 0, {{1, 1, 0}, {3, 3, 2}}}})
    for (uint32_t t = 0; t < 3; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const core::tp_slices slices(shape, cut, t);
      const auto runs = slices.runs(0, slices.elements());
      const auto got = share_of_mask(whole, runs);
      BOOST_TEST_REQUIRE(got.size() == (slices.elements() + 7) / 8);
      for (const auto& run : runs)
        for (uint64_t i = 0; i < run.count; ++i)
          BOOST_TEST(is_kept(got, run.local + i) == (run.is_padding() || keep[run.whole + i] != 0), run.local + i);
    }
}

BOOST_AUTO_TEST_CASE(what_is_dropped_is_zero_whatever_it_was_and_the_rest_keeps_its_bits) {
  std::vector<uint8_t> keep(70);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = i % 3 == 0 || (i > 20 && i < 40) ? 1 : 0;
  const auto bits = packed_mask(keep);
  for (const uint64_t first : {0U, 3U, 8U, 17U}) {
    BOOST_TEST_INFO_SCOPE("first " << first);
    std::vector<float> x(50);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 5 == 0 ? std::numeric_limits<float>::quiet_NaN() : -float(i);
    const std::vector<double> wide(x.begin(), x.end());
    const std::vector<uint16_t> narrow(x.size(), 0xFF81);
    const auto a = masked(x, core::dtype::f32, bits, first);
    const auto b = masked(wide, core::dtype::f64, bits, first);
    const auto c = masked(narrow, core::dtype::bf16, bits, first);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool stays = keep[first + i] != 0;
      BOOST_TEST(std::bit_cast<uint32_t>(a[i]) == (stays ? std::bit_cast<uint32_t>(x[i]) : 0U), i);
      BOOST_TEST(std::bit_cast<uint64_t>(b[i]) == (stays ? std::bit_cast<uint64_t>(wide[i]) : 0U), i);
      BOOST_TEST(c[i] == (stays ? 0xFF81 : 0), i);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
