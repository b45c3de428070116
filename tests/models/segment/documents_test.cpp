// Checks that documents packed into one row have the same results as if each were in a separate row.
#include <c10/util/Exception.h>

#include <boost/test/unit_test.hpp>

#include "models/segment/documents.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(documents)

namespace {

constexpr uint32_t vocabulary = 30;
const std::string gpt2 =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3, "n_positions": 400, "vocab_size": 30,
        "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0})";
const std::string llama =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 30,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 400})";

/// The batch has two rows of 300 columns. The first has three documents, of which one is a single token and one spans
/// several blocks of queries; the second is one document.
constexpr uint64_t columns = 300;
const std::vector<std::vector<uint32_t>> begins = {{0, 140, 141}, {0}};

std::vector<uint32_t> starts_of(const std::vector<std::vector<uint32_t>>& rows) {
  std::vector<uint32_t> out;
  for (const auto& documents : rows)
    for (uint32_t column = 0, d = 0; column < columns; ++column) {
      if (d + 1 < documents.size() && column == documents[d + 1]) ++d;
      out.push_back(documents[d]);
    }
  return out;
}

/// Returns the hidden state that the head receives.
at::Tensor hidden_of(bound_model& m, const micro_batch& batch) {
  at::Tensor hidden;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u + 1 < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s)
      hidden = m.model->forward(u, s, batch, hidden, m.binding)->output();
  return hidden;
}

/// Calls `visit` for each document of each row, in order, with a batch that contains only this document.
void for_each_document(const owned_batch& data, auto visit) {
  for (uint64_t row = 0; row < begins.size(); ++row)
    for (size_t d = 0; d < begins[row].size(); ++d) {
      const uint64_t first = begins[row][d], end = d + 1 < begins[row].size() ? begins[row][d + 1] : columns;
      micro_batch one = data.batch;
      one.tokens = one.tokens.subspan(row * (columns + 1) + first, end - first + 1);
      one.samples = one.samples.subspan(row, 1);
      one.rows = 1;
      one.columns = end - first;
      one.document_start = {};
      visit(one, row, first);
    }
}

void check_alone(const std::string& json) {
  bound_model m(json, core::dtype::f64, 2, columns);
  owned_batch data(2, columns, vocabulary);
  const auto starts = starts_of(begins);
  data.batch.document_start = starts;
  tensor_sink packed(m.model->table(), core::dtype::f64), alone(m.model->table(), core::dtype::f64);
  const double loss = m.step(data.batch, packed);
  const at::Tensor hidden = hidden_of(m, data.batch);

  double sum = 0;
  for_each_document(data, [&](const micro_batch& one, uint64_t row, uint64_t first) {
    const double share = double(one.columns) / double(2 * columns);
    sum += share * m.step(one, alone, share);
    const at::Tensor wanted = hidden_of(m, one).select(0, 0);
    const at::Tensor got = hidden.select(0, static_cast<int64_t>(row))
                               .narrow(0, static_cast<int64_t>(first), static_cast<int64_t>(one.columns));
    BOOST_TEST(relative_difference(got, wanted) <= 1e-12, "document at row " << row << ", column " << first);
  });
  BOOST_TEST(loss == sum, boost::test_tools::tolerance(1e-12));
  for (uint32_t p = 0; p < packed.gradients.size(); ++p)
    BOOST_TEST(relative_difference(packed.gradients[p], alone.gradients[p]) <= 1e-11,
               m.model->table().parameters[p].name);

  data.batch.document_start = {};
  BOOST_TEST(relative_difference(hidden_of(m, data.batch), hidden) > 1e-3);
}

}  // namespace

BOOST_AUTO_TEST_CASE(packed_documents_have_the_same_values_and_gradients_as_alone) {
  for (const std::string& json : {gpt2, llama}) check_alone(json);
}

BOOST_AUTO_TEST_CASE(starts_of_whole_rows_leave_the_bits_of_no_starts) {
  for (const std::string& json : {gpt2, llama}) {
    BOOST_TEST_INFO_SCOPE(json);
    bound_model m(json, core::dtype::f32, 2, columns);
    owned_batch data(2, columns, vocabulary);
    const at::Tensor plain = hidden_of(m, data.batch);
    const auto starts = starts_of({{0}, {0}});
    data.batch.document_start = starts;
    BOOST_TEST(hidden_of(m, data.batch).equal(plain));
  }
}

BOOST_AUTO_TEST_CASE(dropout_is_the_same_in_forward_and_backward_of_packed_rows) {
  // The test compares the derivative along the gradient, in fp64; it would differ if backward drew another dropout mask
  // than forward.
  const std::string dropping =
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 24, "n_head": 3, "n_positions": 300, "vocab_size": 30,
          "embd_pdrop": 0.1, "attn_pdrop": 0.3, "resid_pdrop": 0.1})";
  bound_model m(dropping, core::dtype::f64, 2, columns);
  owned_batch data(2, columns, vocabulary);
  const auto starts = starts_of(begins);
  data.batch.document_start = starts;
  tensor_sink sink(m.model->table(), core::dtype::f64), unused(m.model->table(), core::dtype::f64);
  m.step(data.batch, sink);
  const double step = 1e-6;
  for (uint32_t p = 0; p < sink.gradients.size(); ++p) {
    BOOST_TEST_INFO_SCOPE("p " << p);
    const double norm = sink.gradients[p].norm().item<double>();
    const at::Tensor direction = sink.gradients[p].div(norm);
    m.weights[p].add_(direction, step);
    const double above = m.step(data.batch, unused);
    m.weights[p].sub_(direction, 2 * step);
    const double below = m.step(data.batch, unused);
    m.weights[p].add_(direction, step);
    BOOST_TEST((above - below) / (2 * step) == norm, boost::test_tools::tolerance(1e-5));
  }
}

BOOST_AUTO_TEST_CASE(blocks_cover_each_query_once_and_touch_no_other_document) {
  const auto starts = starts_of(begins);
  const std::span<const uint32_t> row = std::span(starts).first(columns);
  int64_t next = 0;
  for (const query_block& b : query_blocks({{{0, columns}}}, 64, int64_t{columns}, row)) {
    BOOST_TEST(b.first == next);
    BOOST_TEST(b.count <= 64);
    for (int64_t i = b.document; i < b.end; ++i) BOOST_TEST(row[static_cast<size_t>(i)] == b.document);
    BOOST_TEST((b.document <= b.first && b.first + b.count <= b.end));
    BOOST_TEST((b.end == int64_t{columns} || row[static_cast<size_t>(b.end)] == b.end));
    next = b.first + b.count;
  }
  BOOST_TEST(next == int64_t{columns});
}

BOOST_AUTO_TEST_CASE(invalid_starts_are_refused) {
  bound_model m(gpt2, core::dtype::f32, 1, 4);
  owned_batch data(1, 4, vocabulary);
  const std::vector<std::vector<uint32_t>> wrong = {{0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 1}, {0, 2, 2, 2}, {0, 0, 2, 0}};
  for (const auto& starts : wrong) {
    data.batch.document_start = starts;
    BOOST_CHECK_THROW(hidden_of(m, data.batch), c10::Error);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
