// `troupe data tokenize` and `troupe data inspect`: texts to token files and back. Part of the binary without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

struct tokenize_arguments {
  std::vector<std::string> inputs;  ///< files or folders, read in this order
  std::string tokenizer = "bytes";  ///< or a path, as data.tokenizer
  std::string output;               ///< NAME.bin; NAME.bin.json is written beside it
  std::string text_key = "text";
  bool names_text = false;  ///< `text_key` was given by hand
  std::string dtype;        ///< uint16, uint32; empty: what the vocabulary needs
  apps::verbosity verbosity = apps::verbosity::normal;
};

struct inspect_arguments {
  std::string file;
  std::string tokenizer;         ///< to decode with; empty: the one that the file names
  std::string dtype = "uint16";  ///< of a file that nothing describes
  uint64_t tokens = 64;          ///< decoded
  std::vector<std::string> given{};  ///< names of the options on the command line
};

/// Exit codes: 0 well, 1 failed, 2 bad input, 130, 143 interrupted.
int tokenize(const tokenize_arguments& a);
int inspect(const inspect_arguments& a);

}  // namespace troupe::apps
