// Owns `troupe data tokenize`, `troupe data inspect` and `troupe data render`: texts to token files and back, and
// conversations to texts. Part of the binary without LibTorch.
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
  uint64_t samples = 0;              ///< number of samples to print as text, of a file of samples; 0: FILE has tokens
  std::string form = "chat";         ///< form of the samples: a name of core::sample_form
  std::string loss_on = "assistant";  ///< tokens that count: a name of core::loss_part
  std::string chat_template;          ///< as data.chat_template
  std::string chat_date;              ///< as data.chat_date
  uint64_t max_bytes = uint64_t{16} << 30;  ///< largest number of bytes of a packed file, after decompression
  std::vector<std::string> given{};  ///< names of the options that the command line contains
};

struct render_arguments {
  std::string folder;                 ///< "bytes", or a path as in data.tokenizer
  std::string file;                   ///< file of conversations, or a folder, whose first file is read
  std::string form = "chat";          ///< form of the samples: a name of core::sample_form
  std::string loss_on = "assistant";  ///< parts that count: a name of core::loss_part
  std::string chat_template;          ///< as data.chat_template
  std::string chat_date;              ///< as data.chat_date
  std::string messages_key;           ///< column of a conversation's messages; empty: one of the usual names
  uint64_t count = 3;                 ///< number of conversations to print
  uint64_t max_bytes = uint64_t{16} << 30;  ///< largest number of bytes of a packed file, after decompression
};

/// Runs the command. Exit codes: 0 done, 1 failed, 2 bad input, 130, 143 interrupted.
int tokenize(const tokenize_arguments& a);
int inspect(const inspect_arguments& a);
/// Prints the text that a chat template makes of the first conversations of a file, and which parts count.
int render_samples(const render_arguments& a);
/// Prints the first samples of a file as the text of their tokens, and which of them count.
int decode_samples(const inspect_arguments& a);

}  // namespace troupe::apps
