// Tests which tokens an encoder has to find: their share, what stands in their places, and that the choice depends on
// the seed, the sample and the position alone.
#include "data/masking.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/token_order.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(masking)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t vocabulary = 50;

data::masking made(data::masking_options options) {
  options.vocabulary = vocabulary;
  auto out = data::masking::make(std::move(options));
  BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? std::string() : out.error().text));
  return std::move(*out);
}

/// Returns the tokens of a sample of `count` tokens, special ones among them.
std::vector<int64_t> tokens(uint64_t sample, uint64_t count) {
  std::vector<int64_t> out(count);
  for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<int64_t>((sample * 31 + i * 7) % vocabulary);
  return out;
}

bool is_near(double got, double wanted) { return std::abs(got - wanted) < 0.01; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_hundred_thousand_tokens_have_the_shares_of_the_options) {
  const auto masks = made({.mask_token = 4, .special = {0, 1, 2}, .seed = 11});
  uint64_t usual = 0, chosen = 0, masked = 0, kept = 0, other = 0;
  std::array<uint64_t, vocabulary> drawn{};
  for (uint64_t sample = 0; sample < 500; ++sample) {
    const auto before = tokens(sample, 200);
    auto inputs = before;
    std::vector<int64_t> targets(inputs.size());
    const uint64_t count = masks.count(data::data_part::training, sample, inputs);
    BOOST_TEST(masks.apply(data::data_part::training, sample, inputs, targets) == count);
    chosen += count;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_special = before[i] <= 2 || before[i] == 4;
      usual += is_special ? 0 : 1;
      if (targets[i] == core::no_target) {
        BOOST_TEST(inputs[i] == before[i]);
        continue;
      }
      BOOST_TEST(!is_special);
      BOOST_TEST(targets[i] == before[i]);
      if (inputs[i] == 4)
        ++masked;
      else if (inputs[i] == before[i])
        ++kept;
      else
        ++other;
      ++drawn[static_cast<size_t>(inputs[i])];
    }
  }
  const auto share = [&](uint64_t n) { return static_cast<double>(n) / static_cast<double>(chosen); };
  BOOST_TEST(is_near(static_cast<double>(chosen) / static_cast<double>(usual), 0.15));
  BOOST_TEST(is_near(share(masked), 0.8));
  // A random token is the token itself once in as many times as there are tokens.
  BOOST_TEST(is_near(share(other), 0.1 * 45 / 46));
  BOOST_TEST(is_near(share(kept), 0.1 + 0.1 / 46));
  for (const size_t special : {0U, 1U, 2U}) BOOST_TEST(drawn[special] == 0U);
  for (size_t t = 5; t < vocabulary; ++t) BOOST_TEST(drawn[t] > 0U, "token " << t << " is never drawn");
}

BOOST_AUTO_TEST_CASE(the_choice_depends_on_seed_part_and_sample) {
  const auto choice = [](uint64_t seed, data::data_part part, uint64_t sample) {
    auto inputs = tokens(0, 400);
    std::vector<int64_t> targets(inputs.size());
    made({.mask_token = 4, .seed = seed}).apply(part, sample, inputs, targets);
    return targets;
  };
  using enum data::data_part;
  const auto one = choice(1, training, 5);
  BOOST_TEST((one == choice(1, training, 5)));
  BOOST_TEST((one != choice(2, training, 5)));
  BOOST_TEST((one != choice(1, validation, 5)));
  BOOST_TEST((one != choice(1, training, 6)));
}

BOOST_AUTO_TEST_CASE(shares_and_tokens_that_cannot_be_are_refused) {
  const auto refusal = [](data::masking_options options, const char* text) {
    check_failed(data::masking::make(std::move(options)), text);
  };
  refusal({.probability = 1.5, .vocabulary = 9}, "probability");
  refusal({.mask = 0.8, .random = 0.3, .vocabulary = 9}, "at most 1 together");
  refusal({.mask_token = 9, .vocabulary = 9}, "mask_token_id");
  refusal({.mask_token = 0, .vocabulary = 2, .special = {1}}, "not special");
}

// However a step's samples are cut into micro-batches and over ranks, each sample has the same inputs and targets, and
// the losses of the micro-batches, times their factor, have the mean over the step's targets as their mean.
BOOST_AUTO_TEST_CASE(every_cut_of_a_step_has_the_same_masks) {
  const scratch_folder at;
  std::vector<uint16_t> all(3000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i * 17 % vocabulary);
  const auto stream = opened({.path = at.write("t.bin", as_bytes(all)), .vocab_size = vocabulary});
  const auto masks = std::make_shared<const data::masking>(made({.mask_token = 4, .special = {0}, .seed = 3}));
  const auto corpus =
      data::corpus::make({{stream}}, {.validation_fraction = 0.2, .sequence = 16, .seed = 5, .masking = masks});
  BOOST_REQUIRE_MESSAGE(corpus.has_value(), (corpus ? std::string() : corpus.error().text));
  struct step_rows {
    std::vector<int64_t> tokens, targets;
    double factor = 0;
  };
  const auto step_of = [&](const data::batch_shape& shape) {
    step_rows out;
    for (uint32_t m = 0; m < shape.micros; ++m)
      for (uint32_t r = 0; r < shape.ranks; ++r) {
        const auto b = data::make_batch(*corpus, shape, 2, m, r);
        BOOST_TEST(!b.failure.has_value());
        out.tokens.insert(out.tokens.end(), b.tokens.begin(), b.tokens.end());
        out.targets.insert(out.targets.end(), b.targets.begin(), b.targets.end());
        BOOST_TEST((out.factor == 0 || out.factor == b.loss_factor));
        out.factor = b.loss_factor;
        BOOST_TEST((b.by_token == core::order_of_inputs(b.tokens, 16)));
      }
    return out;
  };
  const auto whole = step_of({.rows = 12});
  const auto targets = std::ranges::count_if(whole.targets, core::is_target);
  BOOST_TEST(targets > 0);
  BOOST_TEST(whole.factor == 12.0 * 16 / static_cast<double>(targets));
  constexpr std::array<std::array<uint32_t, 3>, 4> cuts{{{1, 3, 4}, {2, 2, 3}, {6, 2, 1}, {1, 1, 12}}};
  for (const auto& [rows, ranks, micros] : cuts) {
    const auto cut = step_of({.rows = rows, .ranks = ranks, .micros = micros});
    BOOST_TEST((cut.tokens == whole.tokens && cut.targets == whole.targets && cut.factor == whole.factor));
  }
  const std::vector<uint64_t> positions{4, 2};
  const auto samples = check_ok(corpus->read_step(positions));
  BOOST_TEST((*corpus->read_step(positions) == *samples), "a step was read twice");
  std::vector<int64_t> second(17);
  const auto window = corpus->training(2);
  BOOST_TEST_REQUIRE(window.stream->copy(window.first, second).has_value());
  BOOST_TEST(std::ranges::equal(second, std::span((*samples)->tokens).last(17)));

  double weights = 0;
  for (uint64_t i = 0; i < data::validation_batches(*corpus, 5); ++i) {
    const auto b = data::make_validation_batch(*corpus, 5, i);
    const auto weight = data::validation_weight(*corpus, 5, i);
    BOOST_REQUIRE(weight.has_value());
    BOOST_TEST(*weight == static_cast<double>(std::ranges::count_if(b.targets, core::is_target)));
    weights += *weight;
  }
  const auto counted = corpus->validation_targets(0, corpus->validation_windows());
  BOOST_REQUIRE(counted.has_value());
  BOOST_TEST(weights == static_cast<double>(*counted));
}

BOOST_AUTO_TEST_SUITE_END()
