// Tests streams of packed samples: their rows, the tokens that count in batches, the part that is held out, samples
// that are too long, and that another process reads the same.
#include "data/open_samples.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/token_order.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"
#include "data/told_stream.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/chat_fixture.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(open_samples)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Six samples of 2 to 5 tokens; of each, all tokens but the first count. Tokens tell their sample: 10, 11 are of the
/// first one, 20, 21, 22 of the second, and so on.
const std::string lines =
    "{\"input_ids\": [10, 11]}\n"
    "{\"input_ids\": [20, 21, 22], \"labels\": [-100, -100, 22]}\n"
    "\n"
    "{\"input_ids\": [30, 31, 32, 33, 34]}\n"
    "{\"input_ids\": [40, 41, 42, 43]}\n"
    "{\"input_ids\": [50, 51]}\n"
    "{\"input_ids\": [60, 61, 62]}\n";

data::sample_options options(uint64_t sequence) {
  data::sample_options out;
  out.reading.form = core::sample_form::labelled;
  out.reading.vocab_size = 100;
  out.sequence = sequence;
  return out;
}

core::result<std::shared_ptr<const data::token_stream>> opened_samples(const std::string& text,
                                                                       const data::sample_options& how) {
  const scratch_folder at;
  return data::open_samples({.path = at.write("s.jsonl", text), .vocab_size = 100}, how);
}

data::corpus corpus_of(std::shared_ptr<const data::token_stream> stream, uint64_t sequence,
                       double validation_fraction = 0) {
  std::vector<data::weighted_stream> sources;
  sources.push_back({std::move(stream), 1, "s"});
  return *check_ok(data::corpus::make(
      std::move(sources),
      {.validation_fraction = validation_fraction, .sequence = sequence, .seed = 3, .document_mask = true}));
}

/// Returns the targets of all training rows, without those that do not count, sorted.
std::vector<int64_t> targets_of(const data::corpus& corpus) {
  const auto rows = data::make_rows(corpus, 0, corpus.samples(0));
  BOOST_REQUIRE(!rows.failure);
  std::vector<int64_t> out;
  for (const int64_t t : rows.targets)
    if (core::is_target(t)) out.push_back(t);
  std::ranges::sort(out);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(samples_are_packed_into_rows_and_each_is_a_document) {
  const auto stream = *check_ok(opened_samples(lines, options(6)));
  // Best fit by descending length: 5; 4 with 2; 3 with 3; 2. Rows are in the order of their first samples.
  const std::vector<int64_t> wanted{10, 11, 40, 41, 42, 43, 20, 21, 22, 60, 61, 62, 30,
                                    31, 32, 33, 34, 0,  50, 51, 0,  0,  0,  0,  0};
  BOOST_TEST(all_tokens(*stream) == wanted, boost::test_tools::per_element());
  BOOST_TEST(stream->documents() == 6U);
  BOOST_TEST(stream->summary().counted == 12U);
  BOOST_TEST((stream->packed()->training_rows == 4U && stream->packed()->validation_rows == 0U));
  const auto corpus = corpus_of(stream, 6);
  BOOST_TEST(corpus.samples(0) == 4U);
  BOOST_TEST(targets_of(corpus) == (std::vector<int64_t>{11, 22, 31, 32, 33, 34, 41, 42, 43, 51, 61, 62}),
             boost::test_tools::per_element());
  std::vector<uint32_t> starts(6);
  stream->document_starts(0, std::span(wanted).first(6), starts);
  BOOST_TEST(starts == (std::vector<uint32_t>{0, 0, 2, 2, 2, 2}), boost::test_tools::per_element());
  BOOST_TEST(data::sentence_of(stream->summary(), "s")
                     .find("6 samples, 19 tokens, 12 of them count, in 4 rows of 6 "
                           "(79 % filled)") != std::string::npos,
             data::sentence_of(stream->summary(), "s"));
}

BOOST_AUTO_TEST_CASE(without_packing_each_sample_has_a_row_and_the_same_tokens_count) {
  auto how = options(6);
  how.packing = core::sample_packing::none;
  const auto stream = *check_ok(opened_samples(lines, how)), packed = *check_ok(opened_samples(lines, options(6)));
  BOOST_TEST(stream->packed()->training_rows == 6U);
  BOOST_TEST(stream->packed()->recipe == packed->packed()->recipe + "; one sample a row");
  const auto tokens = all_tokens(*stream);
  BOOST_TEST(tokens.size() == 37U);
  BOOST_TEST(std::vector<int64_t>(tokens.begin() + 6, tokens.begin() + 18) ==
                 (std::vector<int64_t>{20, 21, 22, 0, 0, 0, 30, 31, 32, 33, 34, 0}),
             boost::test_tools::per_element());
  const auto corpus = corpus_of(stream, 6);
  BOOST_TEST(targets_of(corpus) == targets_of(corpus_of(packed, 6)), boost::test_tools::per_element());
  // The mean of a step is over its targets, whatever is padding.
  BOOST_TEST(*check_ok(data::targets_of_step(corpus, {.rows = 6}, 0)) == 12U);
  BOOST_TEST(data::make_batch(corpus, {.rows = 6}, 0, 0, 0).loss_factor == 3);
}

BOOST_AUTO_TEST_CASE(the_last_samples_are_held_out_in_rows_of_their_own) {
  auto how = options(6);
  how.validation_fraction = 0.34;
  const auto corpus = corpus_of(*check_ok(opened_samples(lines, how)), 6, 0.34);
  BOOST_TEST(targets_of(corpus) == (std::vector<int64_t>{11, 22, 31, 32, 33, 34, 41, 42, 43}),
             boost::test_tools::per_element());
  BOOST_TEST(corpus.validation_windows() == 1U);
  const auto held_out = data::make_validation_batch(corpus, 2, 0);
  BOOST_TEST(*check_ok(data::validation_weight(corpus, 2, 0)) == 3);
  BOOST_TEST(std::ranges::count_if(held_out.targets, core::is_target) == 3);
  BOOST_TEST(held_out.loss_factor == 2);
  how.validation_fraction = 0.1;
  check_failed(opened_samples(lines, how), "data.validation_fraction 0.1 of 6 samples holds out none of them");
}

// Micro-batches have different numbers of targets; the loss of each is weighted by those of the whole step.
BOOST_AUTO_TEST_CASE(a_step_divides_by_the_targets_of_all_its_rows) {
  const auto corpus = corpus_of(*check_ok(opened_samples(lines, options(6))), 6);
  const data::batch_shape one{.rows = 4}, cut{.rows = 1, .ranks = 2, .micros = 2};
  BOOST_TEST(*check_ok(data::targets_of_step(corpus, one, 0)) == 12U);
  BOOST_TEST(data::make_batch(corpus, one, 0, 0, 0).loss_factor == 2);
  for (uint32_t micro = 0; micro < 2; ++micro)
    for (uint32_t rank = 0; rank < 2; ++rank)
      BOOST_TEST(data::make_batch(corpus, cut, 0, micro, rank).loss_factor == 2);
}

BOOST_AUTO_TEST_CASE(a_sample_that_is_too_long_is_refused_dropped_or_cut) {
  auto how = options(3);
  check_failed(opened_samples(lines, how),
               "s.jsonl:4: the sample has 5 tokens, and a row has 3 (data.sequence_length): raise that number, or set "
               "data.too_long to drop or cut");
  how.too_long = core::long_sample::drop;
  const auto dropped = *check_ok(opened_samples(lines, how));
  BOOST_TEST((dropped->documents() == 4U && dropped->summary().dropped == 2U));
  how.too_long = core::long_sample::cut;
  const auto cut = *check_ok(opened_samples(lines, how));
  BOOST_TEST((cut->documents() == 6U && cut->summary().cut == 2U));
  BOOST_TEST(targets_of(corpus_of(cut, 3)) == (std::vector<int64_t>{11, 22, 31, 32, 41, 42, 51, 61, 62}),
             boost::test_tools::per_element());
  check_failed(opened_samples("{\"input_ids\": [1, 2, 3, 4], \"labels\": [-100, -100, -100, 4]}\n", how),
               "s.jsonl:1: the sample has 4 tokens, and no answer begins before token 3, where data.sequence_length "
               "cuts it");
  how.too_long = core::long_sample::drop;
  check_failed(opened_samples("{\"input_ids\": [1, 2, 3, 4]}\n", how), "all 1 samples are longer than the 3 tokens");
}

BOOST_AUTO_TEST_CASE(a_sample_without_a_token_that_counts_is_refused_by_line) {
  const std::string silent = "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n";
  check_failed(opened_samples("{\"input_ids\": [1, 2]}\n" + silent, options(6)),
               "s.jsonl:2: none of its tokens counts");
  check_failed(opened_samples("{\"input_ids\": [1]}\n", options(6)), "s.jsonl:1: none of its tokens counts");
  check_failed(opened_samples("[{\"input_ids\": [1, 2]}, {\"ids\": 1}]", options(6)),
               "s.jsonl: element 2: wanted a list of tokens under 'input_ids', got ids");
  check_failed(opened_samples("{\"input_ids\": [1, 200]}\n", options(6)), "token 200 at place 1 lies outside");
  check_failed(opened_samples("\n", options(6)), "holds no samples: nothing to train on");
  check_failed(opened_samples("{\"input_ids\": [1,\n", options(6)), "s.jsonl:1: broken JSON");
}

BOOST_AUTO_TEST_CASE(another_process_reads_the_same_samples) {
  const auto mine = *check_ok(opened_samples(lines, options(6)));
  const auto facts = *check_ok(data::told_streams::facts_of(*mine));
  const auto yours =
      *check_ok(data::told_streams::stream_of(facts, *check_ok(data::told_streams::descriptor_of(*mine))));
  BOOST_TEST(all_tokens(*yours) == all_tokens(*mine), boost::test_tools::per_element());
  BOOST_TEST(targets_of(corpus_of(yours, 6)) == targets_of(corpus_of(mine, 6)), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(parquet_and_arrow_have_the_labels_of_transformers) {
  const auto expected = read_json(chat_fixtures() / "expected.json");
  auto how = options(128);
  how.reading.vocab_size = 320;
  for (const char* name : {"labelled.parquet", "labelled.arrow"}) {
    const auto stream = *check_ok(data::open_samples({.path = chat_fixtures() / name, .vocab_size = 320}, how));
    BOOST_TEST(stream->summary().counted == expected["counted"].get<uint64_t>(), name);
    BOOST_TEST(stream->documents() == expected["samples"].size(), name);
  }
}

BOOST_AUTO_TEST_CASE(columns_that_are_not_read_are_refused_by_name) {
  auto how = options(128);
  how.reading.form = core::sample_form::chat;
  how.reading.messages_key = "kind";
  check_failed(data::open_samples({.path = chat_fixtures() / "messages.arrow", .vocab_size = 100}, how),
               "the column 'kind' is encoded by a dictionary, which is not read here");
  how.reading.messages_key = "when";
  check_failed(data::open_samples({.path = chat_fixtures() / "messages.arrow", .vocab_size = 100}, how),
               "the column 'when': wanted texts, numbers, booleans, lists or structures, got timestamps");
  check_failed(data::open_samples({.path = chat_fixtures() / "messages.arrow", .vocab_size = 100}, options(128)),
               "wanted one of the columns input_ids, labels, attention_mask, completion_mask, assistant_masks, "
               "loss_mask, got 'when', 'kind', 'messages'");
}

BOOST_AUTO_TEST_CASE(rows_of_an_array_are_samples_with_the_labels_beside) {
  auto how = options(64);
  how.reading.vocab_size = 320;
  const scratch_folder at;
  const auto copy = [&](const char* from, const std::string& to) {
    const auto target = at / to;
    std::filesystem::create_directories(target.parent_path());
    std::filesystem::copy_file(chat_fixtures() / from, target);
    return target;
  };
  const auto opened_array = [&](const std::filesystem::path& path) {
    return data::open_samples({.path = path, .vocab_size = 320}, how);
  };
  // Without labels every token counts but the first of each sample.
  const auto all = *check_ok(opened_array(copy("input_ids.npy", "a/train_input_ids.npy")));
  BOOST_TEST(all->documents() == 4U);
  BOOST_TEST(all->summary().counted == 4U * 44U);
  copy("labels.npy", "a/train_labels.npy");
  const auto expected = read_json(chat_fixtures() / "expected.json")["samples"];
  uint64_t counted = 0;
  for (const auto& sample : expected)
    for (size_t i = 1; i < 45; ++i) counted += sample["labels"][i].get<int64_t>() >= 0 ? 1U : 0U;
  for (const auto& path : {at / "a", at / "a/train_input_ids.npy"}) {
    const auto stream = *check_ok(opened_array(path));
    BOOST_TEST(stream->documents() == 4U);
    BOOST_TEST(stream->summary().counted == counted);
  }
  copy("input_ids.npy", "a/b.npy");
  copy("labels.npy", "a/b_labels.npy");
  const auto named = *check_ok(opened_array(at / "a/b.npy"));
  BOOST_TEST(named->summary().counted == counted);
  copy("input_ids.npy", "c/tokens.npy");
  copy("labels.npy", "c/labels.npy");
  copy("input_ids.npy", "d/train_tokens.npy");
  copy("labels.npy", "d/train_labels.npy");
  for (const auto& path : {at / "c", at / "c/tokens.npy", at / "d", at / "d/train_tokens.npy"}) {
    const auto stream = *check_ok(opened_array(path));
    BOOST_TEST(stream->documents() == 4U);
    BOOST_TEST(stream->summary().counted == counted);
  }
  copy("labels.npy", "c/tokens_labels.npy");
  for (const auto& path : {at / "c", at / "c/tokens.npy"})
    check_failed(opened_array(path),
                 "tokens.npy': wanted one array with its 'labels' beside it, got 'labels.npy' and 'tokens_labels.npy'");

  check_failed(opened_array(copy("labels.npy", "labels.npy")), "labels.npy: row 1: 'input_ids': token -100 at place 0");
  how.reading.form = core::sample_form::chat;
  check_failed(opened_array(at / "a/b.npy"), "a NumPy array holds tokens: name it as data.labelled (form: labelled)");
}

BOOST_AUTO_TEST_CASE(an_array_of_a_folder_that_is_not_named_as_tokens_is_refused) {
  auto how = options(64);
  how.reading.vocab_size = 320;
  const scratch_folder at;
  const auto opened_with = [&](const std::string& folder, const std::string& tokens, const std::string& other) {
    std::filesystem::create_directories(at / folder);
    std::filesystem::copy_file(chat_fixtures() / "input_ids.npy", at / folder / tokens);
    std::filesystem::copy_file(chat_fixtures() / "input_ids.npy", at / folder / other);
    return data::open_samples({.path = at / folder, .vocab_size = 320}, how);
  };
  check_failed(opened_with("a", "input_ids.npy", "token_type_ids.npy"),
               "token_type_ids.npy': wanted 'input_ids', 'labels' or 'attention_mask' in the name of an array next to "
               "'input_ids.npy'");
  check_failed(opened_with("b", "values.npy", "labels.npy"),
               "labels.npy': wanted beside it the array of the tokens, which has 'input_ids' or 'tokens' in place of "
               "'labels'");
  check_failed(opened_with("d", "tokens.npy", "positions.npy"),
               "positions.npy': wanted 'tokens', 'labels' or 'attention_mask' in the name of an array next to "
               "'tokens.npy'");
  BOOST_TEST((*check_ok(opened_with("c", "part_0.npy", "part_1.npy")))->documents() == 8U);
}

BOOST_AUTO_TEST_CASE(arrays_of_other_types_and_shapes_are_refused) {
  const scratch_folder at;
  const auto refused = [&](const std::string& described, const std::string& numbers, const std::string& why) {
    const std::string magic = "\x93NUMPY";
    const std::string header = "{" + described + "}\n";
    const std::string length{static_cast<char>(header.size()), '\0'};
    const auto path = at.write("x.npy", magic + std::string{'\1', '\0'} + length + header + numbers);
    check_failed(data::open_samples({.path = path, .vocab_size = 100}, options(6)), "x.npy': " + why);
  };
  const std::string c_order = "'fortran_order': False, ";
  refused("'descr': '<f4', " + c_order + "'shape': (1, 2), ", std::string(8, '\1'),
          "wanted an array of integers, lowest byte first, got the type <f4");
  refused("'descr': '>i4', " + c_order + "'shape': (1, 2), ", std::string(8, '\1'), "wanted an array of integers");
  refused("'descr': '<i4', 'fortran_order': True, 'shape': (1, 2), ", std::string(8, '\1'),
          "wanted an array in C order, got Fortran's");
  refused("'descr': '<i4', " + c_order + "'shape': (2,), ", std::string(8, '\1'),
          "wanted an array of two dimensions, samples and their tokens, got the shape (2,)");
  refused("'descr': '<i4', " + c_order + "'shape': (1, 2, 1), ", std::string(8, '\1'), "wanted an array of two");
  refused("'descr': '<i4', " + c_order + "'shape': (2, 2), ", std::string(8, '\1'), "wanted 2 x 2 integers, got 2");
  const auto text = at.write("y.npy", std::string(40, 'a'));
  check_failed(data::open_samples({.path = text, .vocab_size = 100}, options(6)), "wanted a NumPy array");
}

BOOST_AUTO_TEST_SUITE_END()
