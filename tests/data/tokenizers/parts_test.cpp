// Tests that the tokens of a text do not depend on the places at which it is divided into parts.
#include <random>
#include <string>
#include <vector>

#include "core/utf8.hpp"
#include "data/documents.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(parts)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Calls `each` with every byte-level tokenizer of the fixture and its name.
void for_byte_pairs(auto&& each) {
  each(*tokenizer_of("gpt2"), std::string("gpt2"));
  for (const auto& [name, rules] : fixture()["pipelines"].items()) {
    const scratch_folder at;
    const auto t = std::move(*check_ok(data::open_tokenizer(at.write("tokenizer.json", pipeline_of(rules).dump()))));
    each(*t, name);
  }
}

std::string repeated(const std::string& part, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += part;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_string_of_the_fixture_has_the_same_tokens_in_parts_of_any_size) {
  for_byte_pairs([](data::tokenizer& t, const std::string& name) {
    for (const auto& hex : fixture()["text"]) {
      const auto text = from_hex(hex);
      if (!core::is_utf8(text)) continue;
      const auto wanted = encoded(t, text);
      for (const uint64_t first_bytes : {1U, 2U, 7U, 64U})
        BOOST_TEST(in_pieces(t, text, first_bytes) == wanted, name << ", " << first_bytes << " bytes: " << text);
    }
  });
}

BOOST_AUTO_TEST_CASE(random_texts_have_the_same_tokens_in_parts_of_any_size) {
  // Letters with marks that are composed with them or sorted, parts of Hangul, and what the patterns look at: blanks
  // before digits, line breaks, apostrophes.
  const std::vector<std::string> pieces{
      "a",      "e",      "the",    " ",      "  ",     "\n",     "\r\n",   "\t",     "1",         "23",     "'s",
      "'L",     "l",      "!",      ".",      "\u0301", "\u0327", "\u00e9", "\u4e2d", "\u3002",    "\uf900", "\u1100",
      "\u1161", "\u11a8", "\uac00", "\u3000", "\u00a0", "\u0663", "\u0915", "\u093c", "\U0001F600"};
  for_byte_pairs([&](data::tokenizer& t, const std::string& name) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (uint64_t n = random() % 40; n > 0; --n) text += pieces[random() % pieces.size()];
      const auto first_bytes = 1 + random() % 20;
      BOOST_REQUIRE_MESSAGE(in_pieces(t, text, first_bytes) == encoded(t, text),
                            name << ", " << first_bytes << " bytes: " << text);
    }
  });
}

BOOST_AUTO_TEST_CASE(long_documents_of_any_script_have_the_tokens_of_the_whole_text) {
  // The first two have no blanks, the second one also characters that are written composed. A digit after two blanks
  // begins no word with one of them in SmolLM's pattern.
  const std::vector<std::string> texts{repeated("\u4e2d\u6587\u7684\u53e5\u5b50\u3002", data::longest_piece_bytes + 99),
                                       repeated("\u4e2d\uf900\u3002e\u0301\u00e9,", data::longest_piece_bytes + 99),
                                       repeated("x  5\n 6", 3 * data::piece_bytes)};
  for_byte_pairs([&](data::tokenizer& t, const std::string& name) {
    for (const auto& text : texts)
      BOOST_TEST((in_pieces(t, text, data::piece_bytes) == encoded(t, text)), name << ": " << text.substr(0, 20));
  });
}

BOOST_AUTO_TEST_CASE(an_added_word_is_found_across_the_end_of_a_part) {
  const scratch_folder at;
  for (const char* name : {"vocab.json", "merges.txt"})
    at.write(std::string("v/") + name, content_of(fixture_path(std::string("gpt2/") + name)));
  at.write("v/added_tokens.json", R"({"<|user|>": 532, "er|": 533})");
  const auto t = std::move(*check_ok(data::open_tokenizer(at / "v")));
  const std::string text = "the <|us<|user|>er| <|user<|user|>the er|";
  const auto wanted = encoded(*t, text);
  for (uint64_t first_bytes = 1; first_bytes < text.size() + 2; ++first_bytes)
    BOOST_TEST(in_pieces(*t, text, first_bytes) == wanted, first_bytes << " bytes");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_that_encodes_whole_texts_alone_is_given_the_whole_text) {
  /// Appends one token, the text's length.
  class measuring final : public data::tokenizer {
   public:
    core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
      out.push_back(static_cast<uint32_t>(text.size()));
      return {};
    }
    [[nodiscard]] std::string decode(std::span<const uint32_t>) const override { return {}; }
  };
  measuring t;
  BOOST_TEST((in_pieces(t, "some words of a text", 3) == std::vector<uint32_t>{20}));
}

BOOST_AUTO_TEST_SUITE_END()
