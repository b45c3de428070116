#include "actors/hands/transferred.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace troupe::actors;

namespace {

struct slot {
  alignas(64) std::byte bytes[1024] = {};
  [[nodiscard]] std::span<std::byte> of(size_t room) { return {bytes, room}; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(transferred)

BOOST_AUTO_TEST_CASE(a_tensor_crosses_with_its_type_and_shape) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kLong, at::kByte}) {
    slot s;
    const at::Tensor sent = at::arange(24, type).view({2, 3, 4});
    BOOST_REQUIRE(put_transferred(sent, s.of(512), "block 1"));
    const auto got = troupe::actors::transferred(s.of(512));
    BOOST_REQUIRE(got);
    BOOST_TEST(got->scalar_type() == type);
    BOOST_TEST(at::equal(*got, sent));
    BOOST_TEST(got->data_ptr() == static_cast<void*>(s.bytes));
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_with_gaps_arrives_without) {
  slot s;
  const at::Tensor sent = at::arange(24, at::kFloat).view({4, 6}).t();
  BOOST_REQUIRE(put_transferred(sent, s.of(512), "block 1"));
  const auto got = troupe::actors::transferred(s.of(512));
  BOOST_TEST(at::equal(*got, sent));
  BOOST_TEST(got->is_contiguous());
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_larger_than_the_first_is_refused_by_the_name_of_its_unit) {
  slot s;
  const auto put = put_transferred(at::zeros({65}), s.of(256 + 64), "block 1");
  BOOST_REQUIRE(!put);
  BOOST_TEST(
      put.error().text ==
      "the output of block 1: wanted at most 256 bytes in 6 dimensions, as in the first micro-batch, got 260 in 1");
  BOOST_TEST(put_transferred(at::zeros({64}), s.of(256 + 64), "block 1").has_value());
}

BOOST_AUTO_TEST_CASE(an_empty_slot_is_no_tensor) {
  slot s;
  BOOST_TEST(!troupe::actors::transferred(s.of(512)));
}

BOOST_AUTO_TEST_SUITE_END()
