// Checks that the parts which the ranks of a sequence group exchange equal the original when they are joined.
#include "models/segment/sequence_parts.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "models/segment/columns.hpp"
#include "models/table/model_spec.hpp"

BOOST_AUTO_TEST_SUITE(sequence_parts)

using namespace troupe;
using namespace troupe::models;

namespace {

model_spec spec_of(uint32_t heads, uint32_t kv_heads) {
  model_spec s;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_width = 3;
  return s;
}

at::Tensor numbers(int64_t rows, int64_t columns, int64_t width) {
  return at::arange(rows * columns * width, at::kDouble).view({rows, columns, width});
}

/// Returns the parts that rank `to` receives from all ranks.
at::Tensor swapped(const std::vector<at::Tensor>& given, int64_t to) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& from : given) out.push_back(from.select(0, to));
  return at::stack(out);
}

/// Provides an empty gradient scope, because the tested functions have no parameters.
struct scope_fixture {
  core::model_table table{{}, {{"block", {}, {core::segment_info{"attention", {}, 0, 0}}}}, {}, 0, {}};
  parameter_binding none{table, core::dtype::f64};
  micro_batch batch;
  segment_scope scope{table, none, batch, 0, 0};
};

sequence_parts parts_of(const model_spec& spec, const sequence_split& split, uint64_t columns, uint32_t own) {
  return {heads_of(spec, split), split, columns, own};
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_columns_of_own_heads_arrive_in_order_and_own_columns_of_all_heads_come_back) {
  const scope_fixture f;
  constexpr int64_t rows = 2, columns = 7;
  for (const auto& [heads, kv_heads, degree] :
       {std::tuple{4U, 4U, 2U}, {6U, 3U, 2U}, {8U, 2U, 4U}, {12U, 2U, 3U}, {5U, 5U, 3U}}) {
    BOOST_TEST_CONTEXT(heads << " heads, " << kv_heads << " of keys, " << degree << " ranks") {
      const model_spec spec = spec_of(heads, kv_heads);
      const sequence_split split{degree};
      const at::Tensor all = numbers(rows, columns, (heads + 2 * kv_heads) * 3);
      std::vector<at::Tensor> given, mixed;
      for (uint32_t r = 0; r < degree; ++r) {
        const core::column_run own = split.own_columns(columns, r).runs.front();
        given.push_back(give_heads(f.scope, all.narrow(1, own.first, own.count), parts_of(spec, split, columns, r)));
      }
      int64_t head = 0;
      const at::Tensor queries = all.narrow(2, 0, heads * 3), keys = all.narrow(2, heads * 3, kv_heads * 3);
      for (uint32_t r = 0; r < degree; ++r) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        const auto parts = parts_of(spec, split, columns, r);
        const at::Tensor got = take_columns(f.scope, swapped(given, r), parts);
        const auto kv = static_cast<int64_t>(parts.heads.kv[r]), own = kv * parts.heads.group;
        const auto room = static_cast<int64_t>(parts.heads.widest()) * parts.heads.group;
        BOOST_TEST(at::equal(got.narrow(2, 0, own * 3), queries.narrow(2, head * 3, own * 3)));
        for (int64_t k = 0; k < kv; ++k) {  // compares the key head that each query head of this rank uses
          BOOST_TEST_INFO_SCOPE("k " << k);
          const int64_t whole = (head + k * parts.heads.group) / (heads / kv_heads);
          BOOST_TEST(at::equal(got.narrow(2, (room + k) * 3, 3), keys.narrow(2, whole * 3, 3)));
        }
        mixed.push_back(give_columns(f.scope, got.narrow(2, 0, room * 3), parts));
        head += own;
      }
      BOOST_TEST(head == heads);
      for (uint32_t r = 0; r < degree; ++r) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        const core::column_run own = split.own_columns(columns, r).runs.front();
        const at::Tensor back = take_heads(f.scope, swapped(mixed, r), parts_of(spec, split, columns, r));
        BOOST_TEST(at::equal(back, queries.narrow(1, own.first, own.count)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(keys_of_all_columns_are_joined_in_their_order) {
  const scope_fixture f;
  constexpr int64_t rows = 2;
  for (const int64_t columns : {4, 7, 16})
    for (const uint32_t degree : {2U, 3U, 4U}) {
      BOOST_TEST_INFO_SCOPE("columns " << columns);
      BOOST_TEST_INFO_SCOPE("degree " << degree);
      const sequence_split split{degree, sequence_way::keys};
      const at::Tensor all = numbers(rows, columns, 6);
      std::vector<at::Tensor> given;
      std::vector<bool> seen(static_cast<size_t>(columns));
      for (uint32_t r = 0; r < degree; ++r) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        const auto parts = parts_of(spec_of(2, 2), split, static_cast<uint64_t>(columns), r);
        for (const core::column_run& run : parts.columns_of(r).runs)
          for (int64_t c = run.first; c < run.first + run.count; ++c) {
            BOOST_TEST_INFO_SCOPE("c " << c);
            BOOST_TEST(!seen[static_cast<size_t>(c)]);
            seen[static_cast<size_t>(c)] = true;
          }
        given.push_back(give_own(f.scope, models::columns_of(all, 1, parts.columns_of(r)), parts));
      }
      BOOST_TEST(std::ranges::count(seen, true) == columns);
      const auto parts = parts_of(spec_of(2, 2), split, static_cast<uint64_t>(columns), 0);
      BOOST_TEST(at::equal(take_columns(f.scope, at::stack(given), parts), all));
    }
}

BOOST_AUTO_TEST_CASE(key_heads_are_there_as_often_as_ranks_want_them) {
  BOOST_TEST(heads_of(spec_of(8, 4), {4}).repeats == 1U);
  BOOST_TEST(heads_of(spec_of(8, 2), {4}).repeats == 2U);
  // Two copies of each key head are too few for five ranks, and five do not divide the six query heads of a key head
  // evenly.
  BOOST_TEST(heads_of(spec_of(12, 2), {5}).repeats == 3U);
  BOOST_TEST(check_sequence(spec_of(4, 4), 16, {4}).has_value());
  BOOST_TEST(!check_sequence(spec_of(4, 4), 16, {5}).has_value());
  BOOST_TEST(!check_sequence(spec_of(32, 32), 16, {17}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
