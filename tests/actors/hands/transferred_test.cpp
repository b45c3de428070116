#include "actors/hands/transferred.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "plan/job_layout.hpp"

BOOST_AUTO_TEST_SUITE(transferred)

using namespace troupe::actors;
using troupe::models::values;

namespace {

struct slot {
  alignas(64) std::byte bytes[1024] = {};
  [[nodiscard]] std::span<std::byte> of(size_t room) { return {bytes, room}; }
};

/// Returns the only tensor in the slot.
at::Tensor tensor_in(std::span<std::byte> slot) {
  const auto got = troupe::actors::transferred(slot);
  BOOST_REQUIRE(got);
  return *got;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tensor_crosses_with_its_type_and_shape) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kLong, at::kByte}) {
    slot s;
    const at::Tensor sent = at::arange(24, type).view({2, 3, 4});
    BOOST_REQUIRE(put_transferred(sent, s.of(512), "block 1"));
    const at::Tensor got = tensor_in(s.of(512));
    BOOST_TEST(got.scalar_type() == type);
    BOOST_TEST(at::equal(got, sent));
    BOOST_TEST(got.data_ptr() == static_cast<void*>(s.bytes));
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_with_gaps_arrives_without_and_any_other_with_its_strides) {
  slot s;
  const at::Tensor all = at::arange(24, at::kFloat).view({4, 6});
  for (const at::Tensor& sent : {all.narrow(1, 1, 3), all.select(1, 2), all.narrow(0, 0, 1).expand({4, 6})}) {
    BOOST_REQUIRE(put_transferred(sent, s.of(512), "block 1"));
    const at::Tensor got = tensor_in(s.of(512));
    BOOST_TEST(at::equal(got, sent));
    BOOST_TEST(got.is_contiguous());
  }
  for (const at::Tensor& sent :
       {all.t(), all.view({2, 2, 6}).permute({2, 0, 1}), all.view({1, 4, 6}).transpose(0, 2)}) {
    BOOST_REQUIRE(put_transferred(sent, s.of(512), "block 1"));
    const at::Tensor got = tensor_in(s.of(512));
    BOOST_TEST(at::equal(got, sent));
    BOOST_TEST(got.strides() == sent.strides());
  }
}

BOOST_AUTO_TEST_CASE(no_tensor_at_all_crosses_as_such) {
  slot s;
  for (const values& none : {values(), values(std::vector<at::Tensor>(1))}) {
    s.bytes[512 - troupe::plan::transfer_header_bytes] = std::byte{0xFF};
    BOOST_REQUIRE(put_transferred(none, s.of(512), "block 1"));
    BOOST_TEST(!tensor_in(s.of(512)).defined());
  }
}

BOOST_AUTO_TEST_CASE(several_tensors_cross_in_one_slot_with_those_that_are_missing) {
  slot s;
  const values sent(std::vector<at::Tensor>{at::arange(5, at::kByte), at::Tensor(),
                                            at::arange(12, at::kFloat).view({3, 4}).t(), at::zeros({0, 4}),
                                            at::full({}, 7, at::kLong)});
  BOOST_REQUIRE(put_transferred(sent, s.of(1024), "block 1"));
  const auto got = troupe::actors::transferred(s.of(1024));
  BOOST_REQUIRE(got);
  BOOST_TEST_REQUIRE(got->size() == sent.size());
  BOOST_TEST(!(*got)[1].defined());
  for (const size_t i : {0, 2, 3, 4}) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST((*got)[i].scalar_type() == sent[i].scalar_type());
    BOOST_TEST((*got)[i].strides() == sent[i].strides());
    BOOST_TEST(at::equal((*got)[i], sent[i]));
  }
  BOOST_TEST((*got)[2].data_ptr() == static_cast<void*>(s.bytes + 64));
  const auto put =
      put_transferred(values(std::vector<at::Tensor>{at::zeros({1}), at::zeros({16})}), s.of(64 + 60 + 256), "block 1");
  BOOST_REQUIRE(!put);
  BOOST_TEST(put.error().text.find("wanted at most 124 bytes in 7 dimensions, as in the first micro-batch, got 128") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_lies_in_a_slot_can_be_taken_out_of_it) {
  slot s;
  const auto bytes = s.of(512);
  BOOST_REQUIRE(put_transferred(at::arange(6, at::kFloat), bytes, "block 1"));
  const at::Tensor got = tensor_in(bytes), other = at::zeros({3});
  const values out = out_of(bytes, values(std::vector<at::Tensor>{got.narrow(0, 2, 3), at::Tensor(), other}));
  s.bytes[9] = std::byte{0xFF};
  BOOST_TEST(at::equal(out[0], at::arange(2, 5, at::kFloat)));
  BOOST_TEST(!out[1].defined());
  BOOST_TEST(out[2].is_same(other));
  BOOST_TEST(out_of({}, got).first().is_same(got));
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_larger_than_the_first_is_refused_by_the_name_of_its_unit) {
  slot s;
  const auto put = put_transferred(at::zeros({65}), s.of(256 + 128), "block 1");
  BOOST_REQUIRE(!put);
  BOOST_TEST(
      put.error().text ==
      "the output of block 1: wanted at most 256 bytes in 7 dimensions, as in the first micro-batch, got 260 in 1");
  BOOST_TEST(put_transferred(at::zeros({64}), s.of(256 + 128), "block 1").has_value());
}

BOOST_AUTO_TEST_CASE(an_empty_slot_is_no_tensor) {
  slot s;
  BOOST_TEST(!troupe::actors::transferred(s.of(512)));
}

BOOST_AUTO_TEST_CASE(rows_of_a_tensor_come_piece_by_piece) {
  slot s;
  const at::Tensor sent = at::arange(30, at::kFloat).view({2, 5, 3});
  // The pieces are sized for 12 rows, but the tensor has 10, so the last piece contains fewer rows.
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 4}, {8, 4}})
    BOOST_TEST_CONTEXT("first " << first << ", count " << count)
    BOOST_REQUIRE(put_rows(sent, first, count, s.of(512), "block 1"));
  BOOST_TEST(at::equal(tensor_in(s.of(512)), sent));
  slot other;
  BOOST_REQUIRE(put_rows(sent, 0, 4, other.of(512), "block 1"));
  BOOST_REQUIRE(put_rows(sent.mul(2), 4, 6, other.of(512), "block 1"));
  const at::Tensor rows = tensor_in(other.of(512)).view({10, 3});
  BOOST_TEST(at::equal(rows.narrow(0, 0, 4), sent.view({10, 3}).narrow(0, 0, 4)));
  BOOST_TEST(at::equal(rows.narrow(0, 4, 6), sent.mul(2).view({10, 3}).narrow(0, 4, 6)));
  BOOST_TEST(!put_rows(sent, 0, 4, s.of(128), "block 1"));
}

BOOST_AUTO_TEST_SUITE_END()
