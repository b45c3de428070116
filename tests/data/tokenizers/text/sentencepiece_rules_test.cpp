// Tests that tables of normalization rules that would make SentencePiece read outside of its memory are refused, and
// that valid tables are accepted.
#include "data/tokenizers/text/sentencepiece_rules.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(sentencepiece_rules)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint32_t no_label = 0x80000000, leaf = 0x100;

uint32_t unit(uint32_t label, uint32_t offset) { return label | offset << 10; }

/// A table of normalization rules: the size of its trie, one block of the trie, and the replacement texts.
struct table {
  std::array<uint32_t, 256> units{};
  std::string texts = std::string("x\0", 2);

  table() { units.fill(no_label); }
  [[nodiscard]] std::string bytes(uint32_t size = 1024) const {
    std::string out(reinterpret_cast<const char*>(&size), sizeof size);
    return out.append(reinterpret_cast<const char*>(units.data()), sizeof units).append(texts);
  }
  [[nodiscard]] std::string_view fault() const {
    const std::string all = bytes();
    return data::fault_in_rules(std::as_bytes(std::span(all)));
  }
};

/// Returns a table with rules for "a", "aa", "aaa" and so on.
table nested(uint32_t rules) {
  table t;
  const auto node = [](uint32_t k) { return 0x80 + k; };
  t.units[0] = unit(0, node(0));
  for (uint32_t k = 0; k < rules; ++k) {
    const uint32_t at = node(k) ^ 'a';
    t.units[at] = unit('a' | leaf, at ^ node(k + 1));
    t.units[node(k + 1)] = no_label;  // the rule's replacement is the text at byte 0
  }
  return t;
}

std::string_view fault_in(const std::string& bytes) { return data::fault_in_rules(std::as_bytes(std::span(bytes))); }

}  // namespace

BOOST_AUTO_TEST_CASE(sound_tables_have_no_fault) {
  BOOST_TEST(fault_in("") == "");
  BOOST_TEST(nested(0).fault() == "");
  BOOST_TEST(nested(1).fault() == "");
  BOOST_TEST(nested(data::max_nested_rules).fault() == "");
}

BOOST_AUTO_TEST_CASE(rules_that_would_lead_the_library_outside_the_table_are_named) {
  table t = nested(3);
  t.units[0x82] = no_label | 1;
  BOOST_TEST(t.fault() == "");
  t.units[0x82] = no_label | 2;  // the offset is beyond the texts
  BOOST_TEST(t.fault() == "rules that lead out of their table");
  t = nested(3);
  t.units[0x82 ^ 'a'] = unit('a', 0x100);  // the offset is beyond the trie
  BOOST_TEST(t.fault() == "rules that lead out of their table");
  t = nested(3);
  t.units[0] = unit(0, 0x1FFFFF);
  BOOST_TEST(t.fault() == "rules that lead out of their table");
  t.units[0] = unit(0, 0x100) | 0x200;  // the flag 0x200 makes the offset count whole blocks
  BOOST_TEST(t.fault() == "rules that lead out of their table");
  t = nested(3);
  t.units[0x82 ^ 'a'] = unit('a', 0x82 ^ 'a' ^ 0x80);  // the offset leads back to the first node, an infinite loop
  BOOST_TEST(t.fault() == "rules that never end");
  BOOST_TEST(nested(data::max_nested_rules + 1).fault() == "too many rules in a row");
  t = nested(3);
  t.texts = "xy";
  BOOST_TEST(t.fault() == "a rule with a text that has no end");
  t.texts.clear();
  BOOST_TEST(t.fault() == "a table of rules of another size");
  for (const uint32_t size : {0U, 4U, 1020U, 2048U, 0xFFFFFFFFU})
    BOOST_TEST(fault_in(nested(3).bytes(size)) == "a table of rules of another size", size);
  BOOST_TEST(fault_in("abc") == "a table of rules of another size");
}

BOOST_AUTO_TEST_CASE(a_rule_with_a_blank_after_another_byte_is_found) {
  const auto has_inner_blank = [](const table& t) {
    const std::string all = t.bytes();
    bool found = false;
    BOOST_TEST(data::fault_in_rules(std::as_bytes(std::span(all)), &found) == "");
    return found;
  };
  BOOST_TEST(!has_inner_blank(nested(2)));
  for (const uint32_t sign : {uint32_t{' '}, uint32_t{'\n'}, uint32_t{'b'}}) {
    table t = nested(2);  // node 0x81 is reached by the text "a"
    const uint32_t at = 0x81 ^ sign;
    t.units[at] = unit(sign | leaf, at ^ 0x90);
    t.units[0x90] = no_label;
    BOOST_TEST(has_inner_blank(t) == (sign != 'b'), sign);
    t = nested(2);  // node 0x80 is the first node of the trie
    t.units[0x80 ^ sign] = unit(sign | leaf, 0x80 ^ sign ^ 0x90);
    t.units[0x90] = no_label;
    BOOST_TEST(!has_inner_blank(t), sign);
  }
}

BOOST_AUTO_TEST_CASE(a_model_whose_rules_are_damaged_at_any_byte_is_refused_or_encodes) {
  const scratch_folder at;
  const auto model = content_of(fixture_path("unigram.model"));
  const size_t begin = model.find("\x12\x8D\x08") + 3;  // offset of field 2 of the normalizer, which has 1037 bytes
  BOOST_REQUIRE(begin > 3U);
  std::string every_byte;
  for (int c = 0; c < 256; ++c) every_byte.append(1, static_cast<char>(c)).append("th");
  size_t read = 0, refused = 0;
  for (size_t i = 0; i < 1037; ++i)
    for (const int bits : {0x01, 0x80, 0xFF}) {
      BOOST_TEST_INFO_SCOPE("bits " << bits);
      BOOST_TEST_INFO_SCOPE("i " << i);
      std::string broken = model;
      broken[begin + i] = static_cast<char>(broken[begin + i] ^ bits);
      // Removes the file first, because overwriting makes some file systems wait for the disk.
      std::filesystem::remove(at / "m.model");
      auto t = data::open_tokenizer(at.write("m.model", broken));
      if (!t) {
        ++refused;
        BOOST_TEST(t.error().text.find("m.model: wanted a SentencePiece model, got ") != std::string::npos,
                   t.error().text);
        continue;
      }
      ++read;
      std::vector<uint32_t> ids;
      (void)(*t)->encode(every_byte, ids);
      (void)(*t)->decode(ids);
    }
  BOOST_TEST(read > 0U);
  BOOST_TEST(refused > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
