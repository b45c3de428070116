// Tests that the arrays of a micro-batch, stored one after the other in one buffer, are read back unchanged.
#include "models/segment/batch_numbers.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <boost/test/unit_test.hpp>

#include <numeric>
#include <vector>

#include "models/segment/torch_values.hpp"

BOOST_AUTO_TEST_SUITE(batch_numbers)

namespace {

using namespace troupe::models;

constexpr uint64_t rows = 2, columns = 5;

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || (a.scalar_type() == b.scalar_type() && a.equal(b)));
}

bool is_same(const ordered_places& a, const ordered_places& b) {
  return is_same(a.ids, b.ids) && is_same(a.begin, b.begin) && is_same(a.order, b.order);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_array_of_a_batch_is_read_where_it_was_written_whichever_of_them_it_has) {
  std::vector<int64_t> tokens(rows * (columns + 1));
  std::iota(tokens.begin(), tokens.end(), 100);
  tokens[3] = tokens[8];
  const std::vector<uint32_t> document_start = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
  const auto by_token = troupe::core::order_of_inputs(tokens, columns);
  const auto by_column = troupe::core::order_of_columns(document_start, columns);
  for (const bool has_order : {false, true})
    for (const bool has_documents : {false, true})
      for (const bool has_columns : {false, true}) {
        BOOST_TEST_INFO_SCOPE("has columns " << has_columns);
        micro_batch batch;
        batch.tokens = tokens;
        batch.rows = rows;
        batch.columns = columns;
        if (has_documents) batch.document_start = document_start;
        if (has_order) batch.by_token = &by_token;
        if (has_documents && has_columns) batch.by_column = &by_column;
        const packed_numbers packed(batch);
        const at::Tensor bytes = at::empty({static_cast<int64_t>(packed.bytes())}, at::kByte);
        packed.write(bytes_in(bytes));
        const auto read = packed.over(bytes);
        BOOST_TEST(is_same(read.tokens, tokens_on(batch, at::kCPU)));
        BOOST_TEST(is_same(read.document_start, document_start_on(batch, at::kCPU)));
        BOOST_TEST(is_same(read.places, places_on(batch, at::kCPU)));
        BOOST_TEST(is_same(read.by_token, by_token_on(batch, at::kCPU)));
        BOOST_TEST(is_same(read.by_column, by_column_on(batch, at::kCPU)));
        BOOST_TEST(is_same(read.boundaries, has_documents ? at::tensor({0, 2, 5, 6, 9, 10}, at::kInt) : at::Tensor()));
        BOOST_TEST(read.longest_document == (has_documents ? 3 : 0));
      }
}

BOOST_AUTO_TEST_SUITE_END()
