// Tests Megatron's pairs of .bin and .idx files: the tokens and documents that Megatron's own reader returns, and
// invalid indexes.
#include "data/formats/indexed_pair.hpp"

#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(indexed_pair)

using namespace troupe;
using namespace troupe::tests;

namespace {

template <class Number>
std::string raw(std::initializer_list<Number> numbers) {
  return as_bytes(std::vector<Number>(numbers));
}

struct sequence {
  int32_t length;
  int64_t pointer;
};

std::string index_text(uint8_t type, const std::vector<sequence>& sequences, const std::vector<int64_t>& borders) {
  std::string out("MMIDIDX\0\0", 9);
  out += raw<uint64_t>({1}) + static_cast<char>(type) + raw<uint64_t>({sequences.size(), borders.size()});
  for (const auto& s : sequences) out += raw<int32_t>({s.length});
  for (const auto& s : sequences) out += raw<int64_t>({s.pointer});
  return out + as_bytes(borders);
}

/// A folder with one pair of files that contain the uint16 tokens 0 to 9.
struct pair_folder {
  scratch_folder at;
  std::filesystem::path bin = at.write("t.bin", raw<uint16_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  void index(const std::string& text) const { at.write("t.idx", text); }
  void refused(const std::string& text, const std::string& words) const {
    index(text);
    check_refused({.path = bin, .vocab_size = 500}, error_kind::bad_input, words);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_type_is_read_as_megatron_reads_it) {
  for (const char* type : {"uint8", "int8", "int16", "uint16", "int32", "int64", "float32", "float64"}) {
    BOOST_TEST_INFO_SCOPE(type);
    const std::string name = std::string("megatron_") + type;
    for (const auto& path :
         {foreign_path(name + ".bin"), foreign_path(name)}) {  // Megatron names a pair by its path without .bin
      const auto stream = opened({.path = path, .vocab_size = 500, .keep_documents = true});
      const auto tokens = all_tokens(*stream);
      BOOST_TEST(tokens == foreign(name).at("tokens").get<std::vector<int64_t>>(), boost::test_tools::per_element());
      BOOST_TEST(stream->documents() == 5U);
      std::vector<uint32_t> columns(tokens.size());
      stream->document_starts(0, tokens, columns);
      std::vector<uint64_t> starts;
      for (uint32_t i = 0; i < columns.size(); ++i)
        if (columns[i] == i) starts.push_back(i);
      BOOST_TEST(starts == foreign(name).at("starts").get<std::vector<uint64_t>>(), boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(pairs_of_a_folder_follow_each_other_whatever_their_types) {
  const scratch_folder at;
  std::vector<int64_t> wanted;
  for (const char* type : {"int32", "uint16", "int64"}) {
    const std::string name = std::string("megatron_") + type;
    for (const char* ending : {".bin", ".idx"})
      at.write(type + std::string(ending), content_of(foreign_path(name + ending)));
    for (const auto& t : foreign(name).at("tokens")) wanted.push_back(t.get<int64_t>());
  }
  // The files are read in the order of their names, int32, int64, uint16; all three contain equal tokens.
  const auto stream = opened({.path = at.path(), .vocab_size = 500, .keep_documents = true});
  BOOST_TEST(all_tokens(*stream) == wanted, boost::test_tools::per_element());
  BOOST_TEST(stream->documents() == 15U);
}

BOOST_AUTO_TEST_CASE(sequences_come_in_the_order_of_the_index) {
  const pair_folder f;
  f.index(index_text(8, {{2, 12}, {0, 0}, {3, 0}}, {0, 1, 1, 3}));
  const auto stream = opened({.path = f.bin, .vocab_size = 500, .keep_documents = true});
  const auto tokens = all_tokens(*stream);
  BOOST_TEST(tokens == (std::vector<int64_t>{6, 7, 0, 1, 2}), boost::test_tools::per_element());
  std::vector<uint32_t> columns(5);
  stream->document_starts(0, tokens, columns);
  BOOST_TEST(columns == (std::vector<uint32_t>{0, 0, 2, 2, 2}), boost::test_tools::per_element());
  f.index(index_text(8, {{3, 4}}, {0, 1}));  // the index covers only a part of the file
  BOOST_TEST(all_tokens(*opened({.path = f.bin, .vocab_size = 500})) == (std::vector<int64_t>{2, 3, 4}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_index_that_lies_is_named) {
  const pair_folder f;
  f.refused(index_text(8, {{5, 0}, {6, 10}}, {0, 2}), "sequence 1 has 6 tokens from byte 10, beyond its 20 bytes");
  f.refused(index_text(8, {{5, int64_t{1} << 62}}, {0, 1}), "beyond its 20 bytes");
  f.refused(index_text(8, {{-1, 0}}, {0, 1}), "sequence 0 has -1 tokens from byte 0");
  f.refused(index_text(8, {{5, 0}}, {0, 2}), "its documents end at sequence 2, wanted 1");
  f.refused(index_text(8, {{5, 0}, {5, 10}}, {0, 1}), "its documents end at sequence 1, wanted 2");
  f.refused(index_text(8, {{5, 0}, {5, 10}}, {0, 2, 1}), "its documents are not in ascending order: 1 follows 2");
  f.refused(index_text(8, {{5, 0}, {5, 10}}, {1, 2}), "its first document begins at sequence 1, wanted 0");
  f.refused(index_text(8, {{5, 0}}, {}), "it lists no documents");
  f.refused(index_text(9, {{5, 0}}, {0, 1}), "wanted a token type from 1 to 8, got 9");
  f.refused(index_text(8, {{5, 0}}, {0, 1}).substr(0, 20), "20 bytes, but a header has 34");
  f.refused(index_text(8, {{5, 0}}, {0, 1}).substr(0, 50), "do not fit in its 50 bytes");
  f.refused(index_text(8, {{5, 0}}, {0, 1}) + "\1", "its sequences have modes");
  f.refused(index_text(8, {{5, 0}}, {0, 1}) + "\1\1", "2 bytes more than its 1 sequences take");
  f.refused("TNTIDX\0\0" + std::string(40, '\0'), "wanted it to begin with MMIDIDX");
  f.refused(index_text(8, {}, {0}), "holds no text");
}

BOOST_AUTO_TEST_CASE(tokens_outside_the_vocabulary_are_named_with_their_place) {
  const pair_folder f;
  f.index(index_text(8, {{5, 10}}, {0, 1}));
  check_refused({.path = f.bin, .vocab_size = 8}, error_kind::bad_input, "token 8 at position 3 of");
  f.at.write("t.bin", raw<int64_t>({1, -1}));
  f.index(index_text(5, {{2, 0}}, {0, 1}));
  check_refused({.path = f.bin, .vocab_size = 8}, error_kind::bad_input, "wanted a token at position 1 of");
  f.at.write("t.bin", raw<float>({1, 2.5F}));
  f.index(index_text(7, {{2, 0}}, {0, 1}));
  check_refused({.path = f.bin, .vocab_size = 8}, error_kind::bad_input, "not whole");
  f.at.write("t.bin", raw<int32_t>({1, -1}));
  f.index(index_text(4, {{2, 0}}, {0, 1}));
  check_refused({.path = f.bin, .vocab_size = 8}, error_kind::bad_input, "token 4294967295 at position 1");
}

BOOST_AUTO_TEST_CASE(an_index_beside_packed_or_described_tokens_is_refused) {
  const pair_folder f;
  f.index(index_text(8, {{5, 0}}, {0, 1}));
  f.at.write("t.bin.json", "{}");
  check_refused({.path = f.bin, .vocab_size = 500}, error_kind::bad_input, "remove its .bin.json or the index");
}

BOOST_AUTO_TEST_CASE(mutated_indexes_are_read_or_refused) {
  const scratch_folder at;
  for (const char* name : {"megatron_uint16", "megatron_int64"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto bin = at.write("t.bin", content_of(foreign_path(name + std::string(".bin"))));
    each_mutation(content_of(foreign_path(name + std::string(".idx"))), 500, [&](const std::string& text) {
      at.write("t.idx", text);
      const auto got = data::open_tokens({.path = bin, .vocab_size = 500, .keep_documents = true});
      if (!got) BOOST_TEST(got.error().text.find("t.") != std::string::npos, got.error().text);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
