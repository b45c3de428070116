// Tests that texts of any length are tokenized in pieces of bounded size, and that the end of each document is marked.
#include "data/documents.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <utility>

#include "data/token_stream.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "tests/data/text.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(documents)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Returns a SentencePiece model with one more piece, a symbol defined by a user.
std::string with_symbol(std::string model, const std::string& text) {
  const std::string piece =
      std::string("\x0A") + static_cast<char>(text.size()) + text + "\x15" + std::string(4, '\0') + "\x18\x04";
  return std::move(model) + "\x0A" + static_cast<char>(piece.size()) + piece;
}

/// Returns a fixture's model with another normalizer, which adds a space before a text if `added`, and removes repeated
/// spaces and those at both ends if `removed`.
std::string with_spaces(const std::string& model, bool added, bool removed) {
  return content_of(fixture_path(model)) + "\x1A\x04\x18" + static_cast<char>(added) + "\x20" +
         static_cast<char>(removed);
}

/// Returns the model of the fixture bpe.model that removes spaces at both ends of a text and adds none.
std::string model_without_space_before_text() { return with_spaces("bpe.model", false, true); }

std::shared_ptr<data::tokenizer> opened_tokenizer(const std::filesystem::path& path) {
  auto t = data::open_tokenizer(path);
  BOOST_REQUIRE_MESSAGE(t, t.error().text);
  return std::move(*t);
}

/// Returns `bytes` bytes of letters, line breaks, spaces and other characters.
std::string mixed_text(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<std::string> parts{
      "the ", "ferry", "\n", "\n\n", " \n", "  ", "\t", "don't", "9", "\xC3\xA9", "\xF0\x9F\x98\x80", ". A"};
  std::string out;
  while (out.size() < bytes) out += parts[random() % parts.size()];
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_piece_is_found_without_looking_beyond_the_longest) {
  // Examining a long text to its end for each of its pieces would be slow. In this text, reading near the end would
  // crash.
  constexpr size_t all = size_t{1} << 30, readable = data::longest_piece_bytes + 4096;
  void* const mapped = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BOOST_REQUIRE(mapped != MAP_FAILED);
  BOOST_REQUIRE(::mprotect(mapped, readable, PROT_READ | PROT_WRITE) == 0);
  std::memset(mapped, 'x', readable);
  auto pairs = tokenizer_of("gpt2");
  const auto length = [&] {
    data::text_window document{std::string_view{static_cast<const char*>(mapped), all}};
    std::vector<uint32_t> ids;
    return *check_ok(data::encode_piece(*pairs, document, 0, false, data::piece_bytes, ids));
  };
  BOOST_TEST(length() == 0U);
  static_cast<char*>(mapped)[data::piece_bytes + 7] = '\n';
  BOOST_TEST(length() == data::piece_bytes + 8);
  static_cast<char*>(mapped)[7] = ' ';
  BOOST_TEST(length() == 7U);
  ::munmap(mapped, all);
}

BOOST_AUTO_TEST_CASE(byte_pairs_in_pieces_are_those_of_the_whole_text) {
  const scratch_folder at;
  auto pairs = tokenizer_of("gpt2");
  std::vector<std::string> texts;
  for (const uint64_t seed : {1U, 2U, 3U}) texts.push_back(mixed_text(4 * data::piece_bytes, seed));
  // The texts have lines that are all indented, some by an ideographic space, words of another script, and a single
  // space after a line break.
  for (const std::string part : {"the ferry's bell\n   ", "\xE3\x80\x80\xE6\x97\xA5\xE6\x9C\xAC\n",
                                 "\xE6\x97\xA5 \xE6\x9C\xAC\n", "a\n b", " 's", "x \xC3\xA9y\n\xF0\x9F\x98\x80",
                                 "\xE6\x97\xA5\xE6\x9C\xAC\xE3\x80\x82", "it's9", "ab!\xE2\x80\x83\xE2\x80\x83"}) {
    texts.emplace_back();
    while (texts.back().size() < 2 * data::longest_piece_bytes) texts.back() += part;
  }
  for (const auto& text : texts) {
    auto wanted = encoded(*pairs, text);
    wanted.push_back(531);
    const auto stream = opened({.path = at.write("t.txt", text), .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")});
    const auto got = all_tokens(*stream);
    BOOST_TEST((std::vector<uint32_t>(got.begin(), got.end()) == wanted), text.substr(0, 20));
    BOOST_TEST(stream->documents() == 1U);
    BOOST_TEST(!stream->tokens_are_bytes());
  }
}

BOOST_AUTO_TEST_CASE(pieces_of_a_model_that_adds_no_space_are_those_of_the_whole_text) {
  const scratch_folder at;
  const auto t = opened_tokenizer(at.write("m.model", model_without_space_before_text()));
  BOOST_REQUIRE(t->cut_signs());
  std::vector<std::string> texts{std::string(2 * data::piece_bytes, ' ') + "the ferry" +
                                 std::string(2 * data::piece_bytes, ' ') + "bell "};
  for (const uint64_t seed : {1U, 2U, 3U}) texts.push_back(mixed_text(4 * data::piece_bytes, seed));
  for (const std::string part : {"the ferry's bell ", "\xE2\x96\x81 the bell\n"}) {
    texts.emplace_back();
    while (texts.back().size() < 3 * data::piece_bytes) texts.back() += part;
  }
  for (const auto& text : texts) {
    BOOST_REQUIRE(data::first_piece_before(text, *t->cut_signs()).value() < text.size());
    auto wanted = encoded(*t, text);
    wanted.push_back(*t->end_of_text());
    const auto stream = opened({.path = at.write("t.txt", text), .vocab_size = 560, .tokens_of = t});
    const auto got = all_tokens(*stream);
    BOOST_TEST((std::vector<uint32_t>(got.begin(), got.end()) == wanted), text.substr(0, 20));
  }
}

BOOST_AUTO_TEST_CASE(a_long_text_has_the_pieces_of_the_whole_whatever_a_model_does_with_spaces) {
  const scratch_folder at;
  std::vector<std::string> texts{
      mixed_text(3 * data::piece_bytes, 1),
      std::string(data::piece_bytes + 9, ' ') + "the ferry" + std::string(data::piece_bytes, ' ') + "bell\n", ""};
  while (texts.back().size() < 3 * data::piece_bytes)
    texts.back() += "\xE6\x97\xA5\xE6\x9C\xAC\n   the bell\t \xE2\x96\x81 \xE2\x96\x81x \n";
  for (const std::string name : {"bpe.model", "unigram.model"})
    for (const bool added : {false, true})
      for (const bool removed : {false, true}) {
        const auto t = opened_tokenizer(at.write("m.model", with_spaces(name, added, removed)));
        BOOST_TEST_CONTEXT(name << (added ? ", adds a space" : "") << (removed ? ", removes spaces" : "")) {
          BOOST_TEST(t->cut_signs().value() == (name == "bpe.model" && !removed ? " \n" : " "));
          for (const auto& text : texts) {
            auto wanted = encoded(*t, text);
            wanted.push_back(*t->end_of_text());
            const auto got = all_tokens(*opened({.path = at.write("t.txt", text), .vocab_size = 560, .tokens_of = t}));
            BOOST_TEST((std::vector<uint32_t>(got.begin(), got.end()) == wanted), text.substr(0, 20));
          }
        }
      }
}

BOOST_AUTO_TEST_CASE(a_part_ends_with_no_character_that_becomes_a_space_or_nothing) {
  const auto t = tokenizer_of("unigram.model");  // this model replaces a tab with a space
  for (const char* end : {"a", ".", "\xE6\x97\xA5", "\xFF"}) BOOST_TEST(t->may_end_part(end), end);
  for (const char* open : {"", " ", "\t", "\xE2\x96\x81"}) BOOST_TEST(!t->may_end_part(open), open);
  const auto text = std::string(data::piece_bytes, 'x') + "y z w";
  const auto place = [&](const std::string& bad) {
    return data::first_piece_before(text, " ", [&](std::string_view c) { return c != bad; }).value();
  };
  BOOST_TEST(place("") == data::piece_bytes + 1);
  BOOST_TEST(place("y") == data::piece_bytes + 3);
}

BOOST_AUTO_TEST_CASE(a_model_whose_pieces_depend_on_the_text_behind_them_is_not_cut) {
  const scratch_folder at;
  const auto model = content_of(fixture_path("bpe.model"));
  const std::string space_as_suffix("\x12\x03\xC0\x01\x01", 5), pieces_of_words("\x12\x02\x18\x03", 4);
  for (const auto& option : {space_as_suffix, pieces_of_words})
    BOOST_TEST(opened_tokenizer(at.write("m.model", model + option))->cut_signs().value() == "");
  BOOST_TEST(opened_tokenizer(at.write("m.model", with_symbol(model, "e\x0A\x62")))->cut_signs().value() == " ");
}

BOOST_AUTO_TEST_CASE(a_text_that_such_a_model_cannot_encode_in_pieces_is_refused) {
  const scratch_folder at;
  const auto t = opened_tokenizer(at.write("m.model", model_without_space_before_text()));
  std::string text(2 * data::longest_piece_bytes, 'x');
  check_refused({.path = at.write("t.txt", text), .vocab_size = 560, .tokens_of = t}, core::error_kind::bad_input,
                "document 1: 1048576 bytes, from token 0 of the document on, have no blank before which");
  // If a piece of the vocabulary contains a space, a text may not be divided at spaces.
  const auto crossing =
      opened_tokenizer(at.write("c.model", with_symbol(model_without_space_before_text(), "e\xE2\x96\x81\x62")));
  BOOST_TEST(crossing->cut_signs().value() == "");
  text.clear();
  while (text.size() < 2 * data::piece_bytes) text += "the bell ";
  const auto whole = opened({.path = at.write("t.txt", text), .vocab_size = 561, .tokens_of = crossing});
  BOOST_TEST(whole->size() == encoded(*crossing, text).size() + 1);
  while (text.size() < 2 * data::longest_piece_bytes) text += text;
  check_refused({.path = at.write("t.txt", text), .vocab_size = 561, .tokens_of = crossing},
                core::error_kind::bad_input, "have no blank before which");
}

BOOST_AUTO_TEST_CASE(a_piece_of_such_a_model_ends_before_a_blank_that_follows_no_space) {
  const auto text = [](const std::string& tail) { return std::string(data::piece_bytes, 'x') + tail; };
  const auto place = [&](const std::string& tail, const char* signs) {
    return data::first_piece_before(text(tail), signs).value() - data::piece_bytes;
  };
  BOOST_TEST(place(" y", " ") == 0U);
  BOOST_TEST(place("\ny z", " ") == 2U);
  BOOST_TEST(place("\ny z", " \n") == 0U);
  BOOST_TEST(place("\xE2\x96\x81 y z", " ") == 5U);
  BOOST_TEST(place("\xE2\x96\x81  y z", " ") == 6U);
  BOOST_TEST(place("y", " ") == 1U);
  BOOST_TEST(data::first_piece_before("a b", " ").value() == 3U);
  BOOST_TEST(!data::first_piece_before(std::string(data::longest_piece_bytes + 1, 'x'), " ").has_value());
}

BOOST_AUTO_TEST_CASE(a_text_that_becomes_the_end_of_text_is_refused) {
  const scratch_folder at;
  at.write("symbol/tokenizer.model", with_symbol(content_of(fixture_path("unigram.model")), "<|im_end|>"));
  at.write("symbol/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  for (const char* name : {"vocab.json", "merges.txt"})
    at.write(std::string("word/") + name, content_of(fixture_path(std::string("gpt2/") + name)));
  at.write("word/tokenizer_config.json", R"({"eos_token": "!"})");
  for (const auto& [folder, end] : {std::pair("symbol", "<|im_end|>"), std::pair("word", "!")}) {
    const auto t = opened_tokenizer(at / folder);
    const auto fine = opened({.path = at.write("t.txt", "the bell"), .vocab_size = 560, .tokens_of = t});
    BOOST_TEST(all_tokens(*fine).back() == int64_t{*t->end_of_text()});
    check_refused({.path = at.write("t.jsonl", "{\"text\": \"a\"}\n{\"text\": \"the" + std::string(end) + " bell\"}"),
                   .vocab_size = 560,
                   .tokens_of = t},
                  core::error_kind::bad_input, "document 2: a text in it becomes the end-of-text token");
  }
}

BOOST_AUTO_TEST_CASE(a_text_that_is_not_utf_8_is_refused_with_its_byte) {
  const scratch_folder at;
  const std::string late = std::string(3 * data::piece_bytes, 'a') + " b";
  for (const char* name : {"gpt2", "bpe.model"}) {
    const std::shared_ptr<data::tokenizer> t = tokenizer_of(name);
    const auto refused = [&](const std::string& text, const std::string& words) {
      check_refused({.path = at.write("latin.txt", text), .vocab_size = 560, .tokens_of = t},
                    core::error_kind::bad_input, words);
    };
    refused("caf\xE9 noir", "latin.txt: document 1: byte 3 of its text (0xe9) is not UTF-8: convert the text");
    refused("caf\xE9 noir", "`iconv -f LATIN1 -t UTF-8`");
    refused("cut \xE2\x82", "byte 4 of its text (0xe2)");
    refused("an overlong \xC0\xAF", "byte 12 of its text");
    refused("\x82\xA4text\xA3one\xA1n\x05", "byte 0 of its text (0x82)");  // msgpack
    if (t->cut_signs()) {
      refused(std::string(9 * data::piece_bytes, ' ') + "\xFF", "(0xff) is not UTF-8");
    } else {
      refused(late + "\xFF", fmt::format("byte {} of its text (0xff)", late.size()));
      refused(std::string(data::longest_piece_bytes, 'a') + "9aa\xFF!",
              fmt::format("byte {} of its text (0xff)", data::longest_piece_bytes + 3));
    }
  }
  // The byte tokenizer has a token for every byte, so a text for it need not be UTF-8.
  BOOST_TEST(as_text(*opened({.path = at.write("latin.txt", "caf\xE9")})) == "caf\xE9");
}

BOOST_AUTO_TEST_CASE(a_long_text_without_blanks_is_cut_between_words_or_refused) {
  const scratch_folder at;
  const auto read = [&](const std::string& text) {
    return all_tokens(*opened({.path = at.write("t.txt", text), .vocab_size = 532, .tokens_of = tokenizer_of("gpt2")}));
  };
  for (const std::string part : {"theferry,", "bell's9", "\xE6\x97\xA5\xE6\x9C\xAC\xE3\x80\x82"}) {
    std::string text;
    while (text.size() < 2 * data::longest_piece_bytes) text += part;
    auto wanted = encoded(*tokenizer_of("gpt2"), text);
    wanted.push_back(531);
    const auto got = read(text);
    BOOST_TEST((std::vector<uint32_t>(got.begin(), got.end()) == wanted), part);
  }
  check_refused({.path = at.write("t.txt", "a " + std::string(2 * data::longest_piece_bytes, 'x')),
                 .vocab_size = 532,
                 .tokens_of = tokenizer_of("gpt2")},
                core::error_kind::bad_input, "are one word of the tokenizer: divide it into shorter documents");
}

BOOST_AUTO_TEST_CASE(an_added_word_with_a_blank_is_seen_across_the_end_of_a_piece) {
  const scratch_folder at;
  for (const char* name : {"vocab.json", "merges.txt"})
    at.write(std::string("added/") + name, content_of(fixture_path(std::string("gpt2/") + name)));
  at.write("added/added_tokens.json", R"({"of the": 532})");
  const auto t = opened_tokenizer(at / "added");
  const std::string text = std::string(data::piece_bytes - 2, 'x') + "of the bell";
  check_refused({.path = at.write("t.txt", text), .vocab_size = 560, .tokens_of = t}, core::error_kind::bad_input,
                "the text has the added token 'of the', which contains blanks");
}

BOOST_AUTO_TEST_CASE(the_rows_of_all_files_count_against_the_limit) {
  const scratch_folder at;
  for (const char* name : {"in/a.parquet", "in/b.parquet"})
    at.write(name, content_of(fixture_path("sources") / "plain_none.parquet"));
  const auto one = opened({.path = at / "in/a.parquet"})->size();
  const auto least = [&](const std::filesystem::path& path) {
    uint64_t most = one;
    while (!data::open_tokens({.path = path, .max_bytes = most})) ++most;
    return most;
  };
  const uint64_t single = least(at / "in/a.parquet");
  check_refused({.path = at / "in", .max_bytes = 2 * single - 1}, core::error_kind::limit,
                "b.parquet' holds more text");
  BOOST_TEST(opened({.path = at / "in", .max_bytes = 2 * single})->size() == 2 * one);
}

BOOST_AUTO_TEST_CASE(a_folder_of_texts_and_json_lines_is_read_in_order_and_each_document_ends) {
  const scratch_folder at;
  at.write("in/a.txt", "first");
  at.write("in/b.jsonl.gz", gzip("{\"text\": \"second\"}\n{\"text\": \"third\"}\n"));
  at.write("in/c.txt", "fourth");
  for (const char* name : {"gpt2", "bpe.model"}) {
    BOOST_TEST_INFO_SCOPE(name);
    std::shared_ptr<data::tokenizer> t = tokenizer_of(name);
    const auto stream = opened({.path = at / "in", .vocab_size = 560, .tokens_of = t});
    std::vector<int64_t> wanted;
    for (const char* text : {"first", "second", "third", "fourth"}) {
      for (const auto id : encoded(*t, text)) wanted.push_back(id);
      wanted.push_back(*t->end_of_text());
    }
    BOOST_TEST(all_tokens(*stream) == wanted, boost::test_tools::per_element());
    BOOST_TEST(stream->documents() == 4U);
  }
  // The sources are memory-mapped files and expanded ones.
  BOOST_TEST(as_text(*opened({.path = at / "in"})) == "firstsecondthirdfourth");
}

BOOST_AUTO_TEST_CASE(a_line_without_text_is_named_with_file_and_line) {
  const scratch_folder at;
  const auto path = at.write("t.jsonl", "{\"text\": \"a\"}\n{\"body\": \"b\"}\n");
  check_refused({.path = path}, core::error_kind::bad_input, "t.jsonl:2: no key 'text'");
  BOOST_TEST(as_text(*opened({.path = at.write("b.jsonl", "{\"body\": \"b\"}"), .text_key = "body"})) == "b");
  check_refused({.path = at.write("e.jsonl", "\n\n")}, core::error_kind::bad_input, "holds no text");
  check_refused({.path = at.write("z.jsonl", "{\"text\": \"az\"}"), .vocab_size = 'z'}, core::error_kind::bad_input,
                "token 122 of document 1 lies outside the vocabulary of 122");
  check_refused({.path = path, .vocab_size = 500, .tokens_of = tokenizer_of("gpt2")}, core::error_kind::bad_input,
                "the tokenizer has 532 tokens, but the model's vocab_size is 500");
}

BOOST_AUTO_TEST_CASE(a_watch_is_told_of_progress_and_may_stop_it) {
  const scratch_folder at;
  const auto path = at.write("t.txt", mixed_text(5 * data::give_bytes, 4));
  std::vector<uint64_t> reported;
  const auto all = opened({.path = path,
                           .vocab_size = 532,
                           .tokens_of = tokenizer_of("gpt2"),
                           .watch = [&](const data::reading_progress& p) {
                             BOOST_TEST(p.file == path.string());
                             reported.push_back(p.bytes_done);
                             return true;
                           }});
  BOOST_TEST(reported.size() >= 5U);
  BOOST_TEST(std::is_sorted(reported.begin(), reported.end()));
  BOOST_TEST(reported.back() == std::filesystem::file_size(path));
  check_refused({.path = path,
                 .vocab_size = 532,
                 .tokens_of = tokenizer_of("gpt2"),
                 .watch = [](const data::reading_progress&) { return false; }},
                core::error_kind::stopped, "stopped while reading");
}

BOOST_AUTO_TEST_CASE(a_text_that_is_cut_while_it_is_encoded_is_an_error_with_its_name) {
  const scratch_folder at;
  const auto text = mixed_text(3 * data::window_block_bytes, 4);
  std::string lines;
  while (lines.size() < 3 * data::window_block_bytes) lines += "{\"text\": \"some words of a line\"}\n";
  for (const char* name : {"t.txt", "t.jsonl"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto path = at.write(name, std::string_view(name) == "t.txt" ? text : lines);
    const auto cut = data::open_tokens({.path = path,
                                        .vocab_size = 532,
                                        .tokens_of = tokenizer_of("gpt2"),
                                        .watch = [&](const data::reading_progress&) {
                                          std::filesystem::resize_file(path, 100);
                                          return true;
                                        }});
    BOOST_REQUIRE(!cut);
    BOOST_TEST((cut.error().kind == core::error_kind::io));
    BOOST_TEST(cut.error().text.find(path.string() + "': it had ") != std::string::npos, cut.error().text);
  }
}

BOOST_AUTO_TEST_CASE(a_full_sink_ends_the_reading) {
  auto t = tokenizer_of("gpt2");
  const auto text = mixed_text(4 * data::give_bytes, 1);
  data::document_encoder encoder(*t, 2, 532, [](std::span<const std::byte>) -> core::result<void> {
    return core::fail(core::error_kind::no_space, "full");
  });
  const auto ok = encoder.add("t.txt", std::string_view(text), "text");
  BOOST_REQUIRE(!ok);
  BOOST_TEST(ok.error().text == "t.txt: full");
}

BOOST_AUTO_TEST_SUITE_END()
