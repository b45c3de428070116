// `troupe compress SOURCE OUT`: a trained model's linear layers in fewer bits, as a folder that transformers and vLLM
// load. Owns options, config.json and tokenizer files beside the weights, and what is printed; the work is
// checkpoint/convert/compress.hpp's.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace troupe::apps {

struct compress_arguments;

class compress_command {
 public:
  /// Adds `compress`; `parent` outlives this object.
  explicit compress_command(CLI::App& parent);
  ~compress_command();
  compress_command(const compress_command&) = delete;
  compress_command& operator=(const compress_command&) = delete;

  /// After parsing: does what was asked for and gives the exit code; nothing where another command was.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  CLI::App* command_;
  std::unique_ptr<compress_arguments> arguments_;
};

}  // namespace troupe::apps
