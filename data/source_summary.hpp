// Summarises what a run read of one source, in numbers and one sentence for the user, so that a wrong folder, column or
// file is noticed before hours of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/files.hpp"

namespace troupe::data {

/// Counts of one source, which a run prints once.
struct source_summary {
  uint64_t documents = 0, tokens = 0;
  uint64_t files = 0, bytes = 0;      ///< number of files, and their total number of bytes, expanded
  std::string first, last;            ///< first and last file, relative to the source's folder
  bool has_keys = false;              ///< true: some file holds its texts under a key (JSON lines, rows)
  bool knows_documents = true;        ///< false: no file states where its documents begin
  bool ends_documents = false;        ///< true: each document ends with an end-of-text token
  std::vector<std::string> left_out;  ///< files that were left out, each with its reason in a few words
};
/// Passes the members to an encoder, in order.
template <class F>
void fields(F& f, source_summary& x) {
  f(x.documents, x.tokens, x.files, x.bytes, x.first, x.last, x.has_keys, x.knows_documents, x.ends_documents,
    x.left_out);
}

/// Adds a file to the summary of the source at `root`, which is a folder or that file.
void count_file(source_summary& to, const std::filesystem::path& root, const std::filesystem::path& file,
                uint64_t bytes);
void name_left_out(source_summary& to, const std::filesystem::path& root, const std::vector<left_out_file>& files);

/// Returns the summary as a sentence: "'web': 40 documents, 2840 tokens, 5149 bytes in a.jsonl; left out: README.md
/// (card or licence)".
std::string sentence_of(const source_summary& x, const std::string& name);

}  // namespace troupe::data
