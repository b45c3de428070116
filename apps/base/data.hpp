// Owns `troupe data tokenize` and `troupe data inspect`: texts to token files and back. Part of the binary without
// LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

struct tokenize_arguments {
  std::vector<std::string> inputs;  ///< text files or folders to tokenize, read in this order
  std::string tokenizer = "bytes";  ///< "bytes", or a path as in data.tokenizer
  std::string output;               ///< path of the token file, NAME.bin; NAME.bin.json is written next to it
  std::string text_key = "text";
  bool names_text = false;  ///< true if the command line gave `text_key`
  /// Type of the stored tokens: uint16 or uint32; empty: chosen for the size of the vocabulary.
  std::string dtype;
  /// Largest number of bytes of text in packed files and rows, after decompression.
  uint64_t max_bytes = uint64_t{16} << 30;
  apps::verbosity verbosity = apps::verbosity::normal;
};

struct inspect_arguments {
  std::string file;
  std::string tokenizer;             ///< tokenizer for decoding; empty: the tokenizer in the description of the file
  std::string dtype = "uint16";      ///< type of tokens in a file without description
  uint64_t tokens = 64;              ///< number of tokens to print as text
  std::vector<std::string> given{};  ///< names of the options that the command line contains
};

/// Runs the command. Exit codes: 0 done, 1 failed, 2 bad input, 130, 143 interrupted.
int tokenize(const tokenize_arguments& a);
int inspect(const inspect_arguments& a);

}  // namespace troupe::apps
