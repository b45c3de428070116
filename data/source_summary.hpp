// Summarises what a run read of one source, in numbers and one sentence for the user, so that a wrong folder, column or
// file is noticed before hours of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/files.hpp"

namespace troupe::data {

/// Counts and names of the files of one source, which a run prints once at its start.
struct source_summary {
  uint64_t documents = 0, tokens = 0;
  uint64_t files = 0, bytes = 0;      ///< number of files, and their total number of bytes, expanded
  std::string first, last;  ///< names of the first and the last file that were read, relative to the source's folder
  bool has_keys = false;    ///< true: in some file, texts are values of a key (JSON lines) or of a column (rows)
  bool knows_documents = true;        ///< false: some file of tokens does not state where its documents begin
  bool ends_documents = false;        ///< true: each document ends with an end-of-text token
  std::vector<std::string> left_out;  ///< files that were left out, each with its reason in a few words
  /// Packed samples: number of rows, of tokens that count as targets, and of samples that were cut to a row's length or
  /// dropped because they are longer. 0 rows: the source has texts or tokens that are not packed.
  uint64_t rows = 0, counted = 0, cut = 0, dropped = 0;
  uint64_t row_tokens = 0;  ///< length of a row in tokens
};
/// Passes every field to `f`, a byte_writer or byte_reader (core/byte_stream.hpp).
void fields(auto& f, source_summary& x) {
  f(x.documents, x.tokens, x.files, x.bytes, x.first, x.last, x.has_keys, x.knows_documents, x.ends_documents,
    x.left_out, x.rows, x.counted, x.cut, x.dropped, x.row_tokens);
}

/// Adds `file`, which has `bytes` expanded bytes, to the summary of the source at `root`, which is the file itself or a
/// folder that contains it.
void count_file(source_summary& to, const std::filesystem::path& root, const std::filesystem::path& file,
                uint64_t bytes);
void name_left_out(source_summary& to, const std::filesystem::path& root, const std::vector<left_out_file>& files);

/// Returns the summary as a sentence: "'web': 40 documents, 2840 tokens, 5149 bytes in a.jsonl; left out: README.md
/// (card or licence)".
std::string sentence_of(const source_summary& x, const std::string& name);

}  // namespace troupe::data
