// What a run read of one of its sources, in numbers and one sentence for people: whoever names a wrong folder, column
// or file sees it here before hours of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/files.hpp"

namespace troupe::data {

/// Counts of one source, as a run prints them once.
struct source_summary {
  uint64_t documents = 0, tokens = 0;
  uint64_t files = 0, bytes = 0;      ///< bytes of the files, expanded
  std::string first, last;            ///< files, below the source's folder
  bool knows_documents = true;        ///< false: of tokens that nothing describes
  bool ends_documents = false;        ///< a token stands at each document's end
  std::vector<std::string> left_out;  ///< files and why, in a few words
};
/// The members in order, for who encodes them.
template <class F>
void fields(F& f, source_summary& x) {
  f(x.documents, x.tokens, x.files, x.bytes, x.first, x.last, x.knows_documents, x.ends_documents, x.left_out);
}

/// One more file of the source at `root`, which is a folder or that file.
void count_file(source_summary& to, const std::filesystem::path& root, const std::filesystem::path& file,
                uint64_t bytes);
void name_left_out(source_summary& to, const std::filesystem::path& root, const std::vector<left_out_file>& files);

/// "'web': 40 documents, 2840 tokens, 5149 bytes in a.jsonl; left out: README.md (card or licence)".
std::string sentence_of(const source_summary& x, const std::string& name);

}  // namespace troupe::data
