// Tests that a step's samples depend only on the global batch, and that a position in the data is enough to resume.
#include "data/batch.hpp"

#include <algorithm>
#include <set>
#include <thread>

#include "core/text.hpp"
#include "data/corpus.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(batch)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// A text of 16-bit tokens in which each token's value is its position, so that a row shows where it comes from.
struct counted_text {
  scratch_folder at;
  std::shared_ptr<const data::token_stream> stream;
  /// Returns a corpus that trains on the first `train` tokens; the remaining tokens are held out for validation.
  data::corpus corpus(uint16_t train, uint64_t sequence, uint64_t seed) const {
    const double held_out = double(stream->size() - train) / double(stream->size());
    auto made = data::corpus::make({{stream}}, {.validation_fraction = held_out, .sequence = sequence, .seed = seed});
    BOOST_REQUIRE_MESSAGE(made, made.error().text);
    return std::move(*made);
  }
  explicit counted_text(uint16_t tokens) {
    std::vector<uint16_t> all(tokens);
    for (uint16_t i = 0; i < tokens; ++i) all[i] = i;
    stream = opened({.path = at.write("t.bin", as_bytes(all)), .vocab_size = tokens});
  }
};

/// Returns the rows of a whole step in the order of micro-batches, and within each of ranks.
std::vector<std::vector<int64_t>> rows_of_step(const data::corpus& corpus, const data::batch_shape& shape,
                                               uint64_t step) {
  std::vector<std::vector<int64_t>> rows;
  for (uint32_t m = 0; m < shape.micros; ++m)
    for (uint32_t r = 0; r < shape.ranks; ++r) {
      const auto b = data::make_batch(corpus, shape, step, m, r);
      for (uint64_t i = 0; i < b.rows; ++i) {
        const auto* row = b.tokens.data() + i * b.columns;
        rows.emplace_back(row, row + b.columns);
      }
    }
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_row_is_a_window_of_the_text_with_one_token_more) {
  const counted_text text(1000);
  const auto corpus = text.corpus(900, 16, 5);
  const data::sample_order order({0, 900}, 16, 5);
  const auto b = data::make_batch(corpus, {.rows = 3, .ranks = 2, .micros = 2}, 4, 1, 1);
  BOOST_TEST(b.step == 4U);
  BOOST_TEST(b.micro == 1U);
  BOOST_TEST(b.rows == 3U);
  BOOST_TEST(b.columns == 17U);
  BOOST_REQUIRE_EQUAL(b.tokens.size(), 51U);
  for (uint64_t row = 0; row < 3; ++row) {
    BOOST_TEST_INFO_SCOPE("row " << row);
    const uint64_t position = 4 * 12 + (1 * 2 + 1) * 3 + row;
    BOOST_TEST(b.samples[row] == position);
    for (uint64_t i = 0; i < 17; ++i) BOOST_TEST_CONTEXT("i " << i)
    BOOST_TEST(b.tokens[row * 17 + i] == static_cast<int64_t>(order.sample_at(position) * 16 + i));
  }
}

BOOST_AUTO_TEST_CASE(every_way_to_cut_the_global_batch_takes_the_same_rows_in_the_same_order) {
  const counted_text text(4000);
  const auto corpus = text.corpus(3500, 10, 11);
  for (const uint64_t step : {0U, 3U, 40U}) {
    const auto whole = rows_of_step(corpus, {.rows = 12}, step);
    for (uint32_t ranks : {1U, 2U, 3U, 4U, 6U, 12U})
      for (uint32_t micros = 1; micros <= 12 / ranks; ++micros) {
        if (12 % (ranks * micros) != 0) continue;
        const data::batch_shape shape{.rows = 12 / (ranks * micros), .ranks = ranks, .micros = micros};
        BOOST_TEST((rows_of_step(corpus, shape, step) == whole), ranks << " ranks x " << micros);
      }
  }
}

BOOST_AUTO_TEST_CASE(steps_continue_where_the_last_one_ended_across_epochs) {
  const counted_text text(500);
  // The corpus has 45 samples and a step has 8, so epochs end within steps.
  const auto corpus = text.corpus(451, 10, 2);
  const data::batch_shape shape{.rows = 2, .ranks = 2, .micros = 2};
  std::vector<int64_t> starts;
  for (uint64_t step = 0; step < 45; ++step)
    for (const auto& row : rows_of_step(corpus, shape, step)) starts.push_back(row.front());
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    BOOST_TEST_INFO_SCOPE("epoch " << epoch);
    const auto from = starts.begin() + static_cast<int64_t>(epoch * 45);
    BOOST_TEST((std::set<int64_t>(from, from + 45).size()) == 45U);
  }
}

BOOST_AUTO_TEST_CASE(a_position_resumes_with_another_batch_size) {
  const counted_text text(2000);
  const auto corpus = text.corpus(2000, 10, 2);
  const auto once = data::make_rows(corpus, 24, 24);
  auto parts = data::make_rows(corpus, 24, 8);
  const auto more = data::make_rows(corpus, 32, 16);
  parts.tokens.insert(parts.tokens.end(), more.tokens.begin(), more.tokens.end());
  parts.samples.insert(parts.samples.end(), more.samples.begin(), more.samples.end());
  BOOST_TEST((parts.tokens == once.tokens));
  BOOST_TEST((parts.samples == once.samples));
}

// Token 960 is an input of a held-out window. Tokens 320 and 640 are the last tokens of windows 19 and 39, where they
// are no inputs, and the first ones of windows 20 and 40.
BOOST_AUTO_TEST_CASE(a_sample_with_a_token_that_the_model_gives_no_position_is_refused_by_source_and_place) {
  const counted_text text(1000);
  const auto corpus_without = [&](uint32_t refused) {
    auto made = data::corpus::make({{text.stream, 1, "book.bin"}},
                                   {.validation_fraction = 0.1, .sequence = 16, .seed = 5, .refused_input = refused});
    BOOST_REQUIRE_MESSAGE(made, made.error().text);
    return std::move(*made);
  };
  for (const uint32_t refused : {0U, 320U, 640U}) {
    const auto corpus = corpus_without(refused);
    uint64_t failures = 0;
    for (uint64_t sample = 0; sample < corpus.samples(0); ++sample) {
      const auto b = data::make_batch(corpus, {.rows = 1}, sample, 0, 0);
      if (!b.failure) continue;
      ++failures;
      BOOST_TEST(corpus.training(sample).first == refused / 16 * 16);
      BOOST_TEST(b.failure->text == "'book.bin': wanted texts without the padding token " + core::number_text(refused) +
                                        ", to which the model gives no position, got it as token " +
                                        core::number_text(refused) + "; remove it from the text");
    }
    BOOST_TEST(failures == 1U, refused);
  }
  const auto corpus = corpus_without(960);
  const uint64_t window = (960 - corpus.validation(0).first) / 16;
  BOOST_TEST(data::make_validation_batch(corpus, 1, window).failure.has_value());
  BOOST_TEST(!data::make_validation_batch(corpus, 1, window + 1).failure.has_value());
}

BOOST_AUTO_TEST_CASE(training_never_sees_the_validation_text) {
  const counted_text text(3000);
  const auto corpus = text.corpus(2700, 16, 9);
  const auto epoch = data::make_rows(corpus, 0, corpus.samples(0));
  BOOST_TEST(*std::max_element(epoch.tokens.begin(), epoch.tokens.end()) < 2700);
}

BOOST_AUTO_TEST_CASE(validation_covers_each_window_once_in_the_order_of_the_text) {
  const counted_text text(3000);
  const auto corpus = text.corpus(2700, 16, 1);  // the held-out part has 18 windows of 16 tokens
  BOOST_REQUIRE_EQUAL(data::validation_batches(corpus, 4), 5U);
  uint64_t window = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto b = data::make_validation_batch(corpus, 4, i);
    BOOST_TEST(b.rows == (i < 4 ? 4U : 2U));
    for (uint64_t row = 0; row < b.rows; ++row, ++window) {
      BOOST_TEST_INFO_SCOPE("row " << row);
      BOOST_TEST(b.samples[row] == window);
      BOOST_TEST(b.tokens[row * b.columns] == static_cast<int64_t>(2700 + window * 16));
    }
  }
  BOOST_TEST(window == 18U);
}

BOOST_AUTO_TEST_CASE(a_batch_grows_by_the_rule_of_megatron) {
  for (const data::batch_ramp ramp : {data::batch_ramp{4, 4, 24}, {8, 24, 100}, {28, 4, 1}, {4, 4, 7}, {16, 8, 1000}}) {
    const data::batch_shape shape{.rows = 2, .ranks = 2, .micros = 8, .ramp = ramp};
    const double increments = double(32 - ramp.first_rows) / double(ramp.added_rows);
    uint64_t consumed = 0;
    for (uint64_t step = 0; step < 80; ++step) {
      const uint64_t grown = uint64_t(double(consumed) / (double(ramp.samples) / increments)) * ramp.added_rows;
      const uint64_t rows = consumed > ramp.samples ? 32 : ramp.first_rows + grown;
      BOOST_TEST_REQUIRE(shape.samples_before(step) == consumed);
      BOOST_TEST_REQUIRE(shape.rows_of(step) == rows);
      BOOST_TEST_REQUIRE(shape.micros_of(step) == rows / 4);
      data::batch_shape resumed = shape;
      resumed.first_step = step;
      resumed.first_sample = consumed;
      BOOST_TEST_REQUIRE(resumed.samples_before(step + 5) == shape.samples_before(step + 5));
      consumed += rows;
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_of_a_batch_that_grows_follow_each_other) {
  const counted_text text(1000);
  const auto corpus = text.corpus(900, 4, 5);
  const data::batch_shape shape{.rows = 2, .ranks = 2, .micros = 4, .ramp = {4, 4, 24}};
  uint64_t at = 0;
  for (uint64_t step = 0; step < 6; ++step)
    for (uint32_t m = 0; m < shape.micros_of(step); ++m)
      for (uint32_t r = 0; r < shape.ranks; ++r, at += shape.rows)
        BOOST_TEST(
            (data::make_batch(corpus, shape, step, m, r).tokens == data::make_rows(corpus, at, shape.rows).tokens));
  const auto none = data::make_batch(corpus, shape, 0, 1, 0);
  BOOST_TEST_REQUIRE(none.failure.has_value());
  BOOST_TEST(none.failure->text.find("there are 1 of 2 data ranks") != std::string::npos, none.failure->text);
}

BOOST_AUTO_TEST_CASE(a_batch_that_no_step_has_says_so) {
  const counted_text text(1000);
  const auto corpus = text.corpus(900, 16, 5);
  const data::batch_shape shape{.rows = 3, .ranks = 2, .micros = 2, .first_step = 4};
  const auto says = [](const data::batch& b, const std::string& what) {
    BOOST_TEST_REQUIRE(b.failure.has_value());
    BOOST_TEST(b.failure->text.find(what) != std::string::npos, b.failure->text);
  };
  says(data::make_batch(corpus, shape, 4, 2, 0), "number 2 of rank 0 in step 4");
  says(data::make_batch(corpus, shape, 4, 0, 2), "number 0 of rank 2 in step 4");
  says(data::make_batch(corpus, shape, 3, 0, 0), "number 0 of rank 0 in step 3");
  BOOST_TEST(!data::make_batch(corpus, shape, 4, 1, 1).failure.has_value());
  says(data::make_validation_batch(corpus, 2, data::validation_batches(corpus, 2)), "no such validation batch");
  says(data::make_validation_batch(corpus, 0, 0), "of 0 rows each");
  says(data::make_validation_batch(corpus, 2, UINT64_MAX), "no such validation batch");
}

BOOST_AUTO_TEST_CASE(threads_share_a_stream) {
  const counted_text text(4000);
  const auto corpus = text.corpus(4000, 10, 2);
  const auto wanted = data::make_rows(corpus, 0, 500);
  std::vector<data::batch> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& b : got) threads.emplace_back([&] { b = data::make_rows(corpus, 0, 500); });
  }
  for (const auto& b : got) BOOST_TEST((b.tokens == wanted.tokens));
}

BOOST_AUTO_TEST_CASE(training_batches_come_with_the_order_of_their_inputs) {
  const counted_text text(200);
  const auto corpus = text.corpus(150, 8, 5);
  const auto b = data::make_batch(corpus, {.rows = 4, .ranks = 1, .micros = 1}, 0, 0, 0);
  BOOST_TEST((b.by_token == core::order_of_inputs(b.tokens, 8)));
  BOOST_TEST(b.by_token.order.size() == 32U);
  BOOST_TEST(b.by_column.order.empty());  // the corpus has no documents, so this order is empty
  BOOST_TEST(data::make_validation_batch(corpus, 2, 0).by_token.order.empty());
}

BOOST_AUTO_TEST_SUITE_END()
