// Tests several sources that are combined into one order, the starts of documents, and the part of each source that is
// held out.
#include "data/corpus.hpp"

#include <algorithm>
#include <set>

#include "data/batch.hpp"
#include "data/token_file.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/text.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(corpus)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Returns a source with the tokens base, base + 1, and so on.
std::shared_ptr<const data::token_stream> counted(const scratch_folder& at, const std::string& name, uint16_t base,
                                                  uint16_t tokens) {
  std::vector<uint16_t> all(tokens);
  for (uint16_t i = 0; i < tokens; ++i) all[i] = static_cast<uint16_t>(base + i);
  return opened({.path = at.write(name, as_bytes(all)), .vocab_size = 60'000});
}

data::corpus made(std::vector<data::weighted_stream> sources, const data::corpus_options& options) {
  auto out = data::corpus::make(std::move(sources), options);
  BOOST_REQUIRE_MESSAGE(out, out.error().text);
  return std::move(*out);
}

std::vector<uint32_t> starts_of(const data::corpus& corpus, uint64_t row) {
  const auto b = data::make_rows(corpus, 0, corpus.samples(0));
  for (uint64_t r = 0; r < b.rows; ++r)
    if (corpus.training(r).first == row * corpus.sequence()) {
      const auto* from = b.document_start.data() + r * corpus.sequence();
      return {from, from + corpus.sequence()};
    }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_source_alone_has_its_own_order_whatever_its_weight) {
  const scratch_folder at;
  const auto mix = made({{counted(at, "a.bin", 0, 2000), 0.37}}, {.sequence = 10, .seed = 6});
  const data::sample_order order({0, 2000}, 10, 6);
  for (uint64_t p = 0; p < 600; ++p)
    BOOST_TEST_CONTEXT("p " << p) BOOST_REQUIRE(mix.training(p).first == order.first_token_at(p));
}

BOOST_AUTO_TEST_CASE(sources_come_by_weight_and_each_has_its_own_epochs) {
  const scratch_folder at;
  const auto mix =
      made({{counted(at, "a.bin", 0, 1001), 3}, {counted(at, "b.bin", 10'000, 201), 1}}, {.sequence = 10, .seed = 6});
  BOOST_TEST(mix.samples(0) == 100U);
  BOOST_TEST(mix.samples(1) == 20U);
  std::vector<uint64_t> from_a, from_b;
  for (uint64_t p = 0; p < 240; ++p) {
    BOOST_TEST_INFO_SCOPE("p " << p);
    const auto b = data::make_rows(mix, p, 1);
    (b.tokens[0] < 10'000 ? from_a : from_b).push_back(static_cast<uint64_t>(b.tokens[0]));
    BOOST_REQUIRE(from_a.size() * 4 > p * 3 - 3 * (p > 0));
    BOOST_REQUIRE(from_b.size() <= p / 4 + 1);
  }
  BOOST_TEST((std::set<uint64_t>(from_a.begin(), from_a.begin() + 100)).size() == 100U);
  for (size_t epoch = 0; epoch < 3; ++epoch)
    BOOST_TEST((std::set<uint64_t>(from_b.begin() + std::ptrdiff_t(20 * epoch),
                                   from_b.begin() + std::ptrdiff_t(20 * epoch) + 20))
                   .size() == 20U);
  const data::sample_order alone({0, 1001}, 10, 6);  // a second source must not change the order of the first
  for (uint64_t i = 0; i < 100; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_REQUIRE(from_a[i] == alone.first_token_at(i));
}

BOOST_AUTO_TEST_CASE(ranks_and_micro_batches_share_out_the_mixture_like_any_order) {
  const scratch_folder at;
  const auto mix =
      made({{counted(at, "a.bin", 0, 1001), 2}, {counted(at, "b.bin", 10'000, 601), 1.5}}, {.sequence = 10, .seed = 1});
  const auto whole = data::make_rows(mix, 24, 12).tokens;
  std::vector<int64_t> parts;
  for (uint32_t micro = 0; micro < 2; ++micro)
    for (uint32_t rank = 0; rank < 3; ++rank) {
      BOOST_TEST_INFO_SCOPE("micro " << micro);
      const auto b = data::make_batch(mix, {.rows = 2, .ranks = 3, .micros = 2}, 2, micro, rank);
      parts.insert(parts.end(), b.tokens.begin(), b.tokens.end());
    }
  BOOST_TEST((parts == whole));
}

BOOST_AUTO_TEST_CASE(each_source_holds_out_its_own_end_and_all_of_it_is_evaluated_once) {
  const scratch_folder at;
  const auto mix = made({{counted(at, "a.bin", 0, 2000), 1}, {counted(at, "b.bin", 10'000, 500), 1}},
                        {.validation_fraction = 0.2, .sequence = 10, .seed = 3});
  BOOST_TEST(mix.validation_tokens() == 500U);
  BOOST_TEST(mix.validation_windows() == 39U + 9U);
  std::set<int64_t> firsts;
  uint64_t from_b = 0;
  for (uint64_t i = 0; i < mix.validation_windows(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto first = data::make_validation_batch(mix, 1, i).tokens[0];
    BOOST_TEST((first < 10'000 ? first >= 1600 : first >= 10'400));
    firsts.insert(first);
    from_b += first >= 10'000;
    // Windows of both sources alternate, so that even a short evaluation reads both.
    BOOST_TEST(std::abs(double(from_b) - double(i + 1) * 9 / 48) < 1);
  }
  BOOST_TEST(firsts.size() == 48U);
}

BOOST_AUTO_TEST_CASE(texts_for_validation_are_sets_of_their_own_behind_the_held_out_part) {
  const scratch_folder at;
  const auto with = [&](double fraction) {
    auto out = data::corpus::make(
        {{counted(at, "a.bin", 0, 2000), 1}}, {.validation_fraction = fraction, .sequence = 10, .seed = 3},
        {{"long", counted(at, "l.bin", 20'000, 251), "l.bin"}, {"short", counted(at, "s.bin", 30'000, 11), "s.bin"}});
    BOOST_REQUIRE_MESSAGE(out, out.error().text);
    return std::move(*out);
  };
  const auto mix = with(0.2), alone = with(0);
  BOOST_TEST((mix.validation_sets() == 3U && alone.validation_sets() == 2U));
  BOOST_TEST((mix.validation_name(0).empty() && mix.validation_name(1) == "long"));
  BOOST_TEST((alone.validation_name(0) == "long" && alone.validation_name(1) == "short"));
  BOOST_TEST((mix.validation_windows() == 39U && mix.validation_windows(1) == 25U && mix.validation_windows(2) == 1U));
  BOOST_TEST(mix.validation_windows(3) == 0U);
  BOOST_TEST((mix.streams() == 3U && mix.stream(2).size() == 11U && alone.stream(1).size() == 251U));
  BOOST_TEST(data::make_validation_batch(mix, 4, 6, 1).tokens.front() == 20'000 + 240);
  BOOST_TEST(data::validation_rows(mix, 4, 6, 1) == 1U);
  BOOST_TEST(data::make_validation_batch(mix, 4, 0, 2).tokens.front() == 30'000);
  // The training order does not depend on texts that are never trained on.
  const auto plain = made({{counted(at, "b.bin", 0, 2000), 1}}, {.sequence = 10, .seed = 3});
  for (uint64_t p = 0; p < 300; ++p) BOOST_TEST(alone.training(p).first == plain.training(p).first);
}

BOOST_AUTO_TEST_CASE(evaluations_number_the_sets_one_after_the_other) {
  const scratch_folder at;
  const auto mix = check_ok(data::corpus::make({{counted(at, "a.bin", 0, 2000), 1}},
                                               {.validation_fraction = 0.2, .sequence = 10, .seed = 3},
                                               {{"x", counted(at, "x.bin", 20'000, 51), "x.bin"}}));
  const data::batch_shape shape{.rows = 2, .ranks = 3};
  BOOST_TEST((data::evaluations_of(*mix, shape, 0) == 7U && data::evaluations_of(*mix, shape, 1) == 1U));
  BOOST_TEST((data::first_evaluation(*mix, shape, 0) == 0U && data::first_evaluation(*mix, shape, 1) == 7U));
  const auto place = [&](uint64_t number, uint32_t rank) {
    const auto p = data::evaluated_place(*mix, shape, number, rank);
    return std::pair(p.set, p.index);
  };
  BOOST_TEST((place(0, 2) == std::pair(size_t{0}, uint64_t{2}) && place(6, 1) == std::pair(size_t{0}, uint64_t{19})));
  BOOST_TEST((place(6, 2) == std::pair(size_t{0}, uint64_t{0})));  // a rank without a batch repeats one
  BOOST_TEST((place(7, 0) == std::pair(size_t{1}, uint64_t{0}) && place(7, 2) == std::pair(size_t{1}, uint64_t{2})));
  BOOST_TEST((place(8, 0) == std::pair(size_t{1}, uint64_t{0})));
}

BOOST_AUTO_TEST_CASE(a_validation_text_shorter_than_a_sequence_is_named) {
  const scratch_folder at;
  const auto refused = data::corpus::make({{counted(at, "a.bin", 0, 100), 1, "a.bin"}}, {.sequence = 10},
                                          {{"x", counted(at, "x.bin", 0, 10), "x.bin"}});
  check_failed(refused,
               "x.bin: the validation text has 10 tokens, shorter than one sequence, which takes 10 and one "
               "more as the last target");
}

BOOST_AUTO_TEST_CASE(a_source_shorter_than_a_sequence_is_named) {
  const scratch_folder at;
  const auto refused = data::corpus::make(
      {{counted(at, "a.bin", 0, 100), 1, "a.bin"}, {counted(at, "b.bin", 0, 5), 1, "b.bin"}}, {.sequence = 10});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("b.bin: the training text has 5 tokens") == 0U, refused.error().text);
}

BOOST_AUTO_TEST_CASE(sources_of_two_tokenizers_are_refused_with_a_file_of_each) {
  const scratch_folder at;
  const std::vector<uint16_t> tokens(100, 7);
  const auto described = [&](const std::string& name, const data::tokenizer_description& by) {
    const auto path = at.write(name, as_bytes(tokens));
    at.write(name + ".json", data::as_text({by, "", data::bin_width::u16, tokens.size(), 1}));
    return data::weighted_stream{opened({.path = path, .vocab_size = 60'000}), 1, name};
  };
  const auto refused = [&](const data::weighted_stream& one, const data::weighted_stream& other,
                           const std::string& words) {
    const auto got = data::corpus::make({one, {counted(at, "bare.bin", 0, 100), 1}, other}, {.sequence = 10});
    BOOST_REQUIRE(!got);
    BOOST_TEST(got.error().text.find(words) != std::string::npos, got.error().text);
  };
  const auto by = tokenizer_of("gpt2")->description();
  auto other_end = by;
  other_end.end_of_text = 3;
  const auto pairs = described("a.bin", by);
  refused(pairs, described("b.bin", tokenizer_of("bpe.model")->description()),
          "a.bin' holds tokens of gpt2 (532 tokens, digest " + by.digest + "), and '");
  refused(pairs, described("c.bin", other_end), "a.bin' ends its documents with token 531, and '");
  refused(pairs, described("c.bin", other_end), "c.bin' with token 3: wanted one end of text for all sources");
  const data::weighted_stream text{opened({.path = at.write("t.txt", std::string(100, 'a')), .vocab_size = 60'000}), 1};
  refused(text, pairs, "t.txt' holds tokens of bytes (256 tokens");
  made({pairs, {counted(at, "bare.bin", 0, 100), 1}, described("d.bin", by)}, {.sequence = 10});
}

BOOST_AUTO_TEST_CASE(every_file_of_a_folder_is_a_document) {
  const scratch_folder at;
  at.write("in/a.txt", "abc");
  at.write("in/b.txt", "defgh");
  at.write("in/c.txt", "ijklmnopqr");
  const auto stream = opened({.path = at / "in", .keep_documents = true});
  BOOST_TEST(stream->documents() == 3U);
  const auto mix = made({{stream}}, {.sequence = 4, .seed = 1, .document_mask = true});
  using v = std::vector<uint32_t>;  // the text is abcd efgh ijkl mnop
  BOOST_TEST(starts_of(mix, 0) == (v{0, 0, 0, 3}), boost::test_tools::per_element());
  BOOST_TEST(starts_of(mix, 1) == (v{0, 0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(starts_of(mix, 2) == (v{0, 0, 0, 0}), boost::test_tools::per_element());
  const auto without = made({{stream}}, {.sequence = 4, .seed = 1});
  BOOST_TEST(data::make_rows(without, 0, 2).document_start.empty());
}

BOOST_AUTO_TEST_CASE(every_line_is_a_document_with_bytes_and_with_an_end_of_text_token) {
  const scratch_folder at;
  const auto path =
      at.write("t.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cdefg\"}\n{\"text\":\"\"}\n{\"text\":\"hi\"}\n");
  using v = std::vector<uint32_t>;
  const auto bytes = opened({.path = path, .keep_documents = true});
  BOOST_TEST(as_text(*bytes) == "abcdefghi");
  BOOST_TEST(bytes->documents() == 4U);
  std::vector<int64_t> tokens(9);
  v starts(9);
  BOOST_TEST_REQUIRE(bytes->copy(0, tokens).has_value());
  bytes->document_starts(0, tokens, starts);
  BOOST_TEST(starts == (v{0, 0, 2, 2, 2, 2, 2, 7, 7}), boost::test_tools::per_element());

  const auto pairs = opened({.path = path, .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")});
  const auto all = all_tokens(*pairs);
  BOOST_TEST(std::count(all.begin(), all.end(), 531) == 4);
  starts.resize(all.size());
  pairs->document_starts(0, all, starts);
  for (size_t i = 1; i < all.size(); ++i) BOOST_TEST(starts[i] == (all[i - 1] == 531 ? i : starts[i - 1]));
}

BOOST_AUTO_TEST_SUITE_END()
