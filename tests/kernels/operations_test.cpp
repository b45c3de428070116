// Tests kernels/operations.hpp: a device's table has an entry for every operation. Also tests the operations that no
// other file tests: mean losses in memory, sums of groups, dropout masks by layer name, rotary heads of all tokens.
#include "kernels/operations.hpp"

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/layers/rotary.hpp"
#include "samples.hpp"

namespace troupe::kernels::tests {

BOOST_AUTO_TEST_SUITE(operations)

namespace {

const operations& cpu() { return operations_of({device::device_kind::cpu}); }

template <class T>
std::byte* bytes(std::vector<T>& x) {
  return reinterpret_cast<std::byte*>(x.data());
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_operation_of_a_device_is_missing) {
  const auto all = std::bit_cast<std::array<void*, sizeof(kernels::operations) / sizeof(void*)>>(cpu());
  for (size_t i = 0; i < all.size(); ++i) BOOST_TEST(all[i] != nullptr, "operation " << i);
  BOOST_TEST(&cpu() == &operations_of({}));
}

BOOST_AUTO_TEST_CASE(a_mean_loss_is_written_in_the_type_of_its_sums) {
  const uint64_t rows = 3, width = 10;
  const auto values = awkward_floats(rows * width, 7);
  const std::vector<int64_t> targets{4, 0, 9};
  for (const core::dtype type : fp32_dtypes) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    auto logits = stored_as(type, values);
    std::vector<float> log_sums(rows), loss(1);
    cpu().cross_entropy({}, nullptr, logits.data(), type, rows, width, targets.data(), bytes(log_sums), bytes(loss));
    const double sum = cross_entropy(logits.data(), type, rows, width, targets.data(), log_sums.data());
    BOOST_TEST(loss[0] == static_cast<float>(sum / 3));
    auto wanted = logits;
    cross_entropy_backward(wanted.data(), type, rows, width, width, targets.data(), log_sums.data(), 2.0 / 3);
    loss[0] = 2;
    // The backward pass runs on the first two rows of the mean, then on the third.
    const uint64_t first = 2 * width * core::size_of(type);
    cpu().cross_entropy_backward({}, nullptr, logits.data(), type, 2, width, width, targets.data(), bytes(log_sums),
                                 bytes(loss), rows);
    cpu().cross_entropy_backward({}, nullptr, logits.data() + first, type, 1, width, width, targets.data() + 2,
                                 bytes(log_sums) + 8, bytes(loss), rows);
    TROUPE_CHECK_SAME_BITS(logits, wanted);
  }
  std::vector<double> logits(values.begin(), values.end()), log_sums(rows), loss(1);
  cpu().cross_entropy({}, nullptr, bytes(logits), core::dtype::f64, rows, width, targets.data(), bytes(log_sums),
                      bytes(loss));
  BOOST_TEST(loss[0] ==
             cross_entropy_reference(bytes(logits), core::dtype::f64, rows, width, targets.data(), log_sums.data()) /
                 3);
}

BOOST_AUTO_TEST_CASE(groups_of_rows_are_summed_in_their_order_and_rounded_once) {
  const uint64_t width = 37, rows = 9;
  const std::vector<int64_t> order{8, 1, 3, 0, 2, 5, 7, 4}, begin{0, 1, 1, 4, 8};
  for (const core::dtype type : float_dtypes) {
    const auto x = awkward_bytes(type, rows * width, 3);
    const uint64_t row_bytes = width * core::size_of(type);
    std::vector<std::byte> got(4 * row_bytes, std::byte{0x55}), wanted(got.size());
    cpu().grouped_sums(x.data(), type, width, {order.data(), begin.data(), 4}, got.data());
    with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
      const auto* from = reinterpret_cast<const T*>(x.data());
      for (uint64_t g = 0; g < 4; ++g)
        for (uint64_t c = 0; c < width; ++c) {
          decltype(widen(T{})) sum = 0;
          for (int64_t i = begin[g]; i < begin[g + 1]; ++i) sum += widen(from[uint64_t(order[size_t(i)]) * width + c]);
          reinterpret_cast<T*>(wanted.data())[g * width + c] = narrow<T>(sum);
        }
    });
    TROUPE_CHECK_SAME_BITS(got, wanted);
  }
}

BOOST_AUTO_TEST_CASE(dropout_by_name_is_the_mask_applied_however_a_range_is_cut) {
  const dropout_key key{.probability = 0.3F, .seed = 5, .step = 2, .sample = 11, .layer = 3, .site = 1};
  const uint64_t count = 10000, first = 77;
  for (const core::dtype type : float_dtypes) {
    auto whole = awkward_bytes(type, count, 9), cut = whole, wanted = whole;
    std::vector<uint8_t> keep(count);
    cpu().draw(keep.data(), count, key, first);
    scale_kept(wanted.data(), type, keep.data(), 1.0 / (1.0 - double(0.3F)), count);
    cpu().drop(whole.data(), type, count, key, first);
    cpu().drop(cut.data(), type, 4100, key, first);
    cpu().drop(cut.data() + 4100 * core::size_of(type), type, count - 4100, key, first + 4100);
    TROUPE_CHECK_SAME_BITS(whole, wanted);
    TROUPE_CHECK_SAME_BITS(cut, wanted);
  }
}

BOOST_AUTO_TEST_CASE(the_heads_of_all_tokens_turn_by_their_place_in_the_document) {
  const uint64_t columns = 5, tokens = 10, heads = 2, width = 6, packed = 4 * width, own = heads * width;
  const std::vector<int32_t> starts{0, 0, 2, 2, 4, 0, 1, 1, 1, 1};
  const auto cosines = awkward_floats(columns * width / 2, 2), sines = awkward_floats(columns * width / 2, 3);
  const auto* c = reinterpret_cast<const std::byte*>(cosines.data());
  const auto* s = reinterpret_cast<const std::byte*>(sines.data());
  for (const core::dtype type : fp32_dtypes) {
    const uint64_t element = core::size_of(type);
    const auto x = awkward_bytes(type, tokens * own, 1);
    std::vector<std::byte> got(tokens * packed * element), wanted(got.size()), moved(x.size());
    token_heads there{x.data(), got.data() + width * element, own * element, packed * element, type, tokens, heads,
                      width};
    cpu().turn_tokens(there, {.cosines = c, .sines = s, .starts = starts.data(), .columns = columns});
    for (uint64_t t = 0; t < tokens; ++t) {
      const uint64_t at = (t % columns - uint64_t(starts[t])) * (width / 2);
      turn_heads(x.data() + t * own * element, wanted.data() + (t * packed + width) * element, type, heads, width,
                 cosines.data() + at, sines.data() + at, false);
    }
    TROUPE_CHECK_SAME_BITS(got, wanted);
    there.to = moved.data();
    there.to_stride = own * element;
    cpu().turn_tokens(there, {.columns = columns});
    TROUPE_CHECK_SAME_BITS(moved, x);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::kernels::tests
