// Tests the description of an expanded or encoded source with which another process reads the same tokens through a
// file descriptor. A source that the other process can read itself is not described, and a descriptor of other bytes is
// refused.
#include "data/told_stream.hpp"

#include <boost/test/unit_test.hpp>

#include "core/math.hpp"
#include "tests/check_ok.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(told_stream)

using namespace troupe;
using namespace troupe::tests;
using data::told_streams;

BOOST_AUTO_TEST_CASE(an_expanded_text_has_the_same_tokens_and_documents_elsewhere) {
  const scratch_folder at;
  // Files of this size are not copied into memory when the folder is opened.
  const std::string half(data::copied_below_bytes, 'a');
  at.write("in/a.txt.gz", gzip(half));
  at.write("in/b.txt.gz", gzip(half + "!"));
  auto mine = opened({.path = at / "in"});
  const auto facts = check_ok(told_streams::facts_of(*mine));
  const auto descriptor = check_ok(told_streams::descriptor_of(*mine));
  const auto yours = check_ok(told_streams::stream_of(*facts, *descriptor));
  const auto text = as_text(*mine), mine_file = mine->maker().value().file;
  mine.reset();  // the other process must not need the process that expanded the source
  BOOST_TEST((as_text(**yours) == text));
  BOOST_TEST(((*yours)->documents() == 2U && (*yours)->tokens_are_bytes() && (*yours)->vocab_size() == 256U));
  BOOST_TEST(((*yours)->maker()->file == mine_file && (*yours)->maker()->tokenizer.kind == "bytes"));
  const std::vector<int64_t> tokens(20);
  std::vector<uint32_t> starts(20);
  (*yours)->document_starts(half.size() - 5, tokens, starts);
  BOOST_TEST(starts.back() == 5U);
  // A process that received a source must be able to pass it on in the next term.
  const auto again = told_streams::facts_of(**yours);
  BOOST_TEST((again == facts));
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_is_not_told) {
  const scratch_folder at;
  BOOST_TEST(!told_streams::facts_of(*opened({.path = at.write("a.txt", "plain text")})).has_value());
  at.write("in/a.txt", "plain and ");
  at.write("in/b.txt.gz", gzip("packed"));
  BOOST_TEST(!told_streams::facts_of(*opened({.path = at / "in"})).has_value());
}

BOOST_AUTO_TEST_CASE(other_bytes_and_files_that_are_too_short_are_refused) {
  const scratch_folder at;
  const auto mine = opened({.path = at.write("a.txt.gz", gzip("some text"))});
  const auto other = opened({.path = at.write("b.txt.gz", gzip("less"))});
  const auto facts = check_ok(told_streams::facts_of(*mine));
  const auto refused = [](const std::string& bytes, const data::token_stream& of) {
    const auto got = told_streams::stream_of(bytes, told_streams::descriptor_of(of).value());
    return !got && got.error().kind == core::error_kind::mismatch;
  };
  BOOST_TEST(refused(*facts, *other));
  for (size_t n = 0; n < facts->size(); ++n) BOOST_TEST(refused(facts->substr(0, n), *mine));
}

BOOST_AUTO_TEST_SUITE_END()
