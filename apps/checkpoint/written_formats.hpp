// Lists the conversions of `troupe checkpoint` that write OUT: the name, help and options of each, and the function
// that writes. A new conversion requires a written_format next to its function, and an entry here; the command line and
// Python walk over the list.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct conversion_arguments {  ///< arguments that all conversions have
  source_arguments source;
  output_arguments output;
  std::string model_config;          ///< path of config.json, for a checkpoint that does not describe its model
  std::vector<std::string> given{};  ///< options that the caller has given; those without effect are refused
};

/// The variable that an option sets; a bool is set by a flag.
using option_target = std::variant<std::string*, bool*, uint32_t*, std::optional<double>*, std::vector<uint32_t>*,
                                   std::vector<std::string>*>;

struct conversion_option {
  /// Name on the command line, such as "--max-shard-size"; Python's keyword is max_shard_size. A name without dashes is
  /// an argument between PATH and OUT, which must be given.
  std::string name;
  option_target into;
  std::string help;
  std::string values = {};     ///< text that the help shows for the value, such as "{fp32,bf16,fp16}"; empty: the type
  bool shows_default = false;  ///< true: the help shows the value that the variable has at first
  std::string needs = {};      ///< name of an option without which this one is refused; empty: none
  bool is_shared = false;      ///< true: all conversions have the option, and Python reads it after their own
};

/// Adds --model-config and --ignore-key.
void add_description_options(std::vector<conversion_option>& to, source_arguments& source, std::string& model_config);
/// Returns the option --ema, for conversions that write weights alone.
conversion_option average_option(source_arguments& source);
/// Adds --model-config, --ignore-key and --allow-overflow.
void add_model_options(std::vector<conversion_option>& to, conversion_arguments& a);

/// A conversion that a caller asks for, with its arguments.
class conversion_request {
 public:
  virtual ~conversion_request() = default;
  /// Returns the arguments, which options() refers to.
  [[nodiscard]] virtual conversion_arguments& arguments() = 0;
  /// Returns the options in the order of the help.
  [[nodiscard]] virtual std::vector<conversion_option> options() = 0;
  [[nodiscard]] virtual core::result<void> write() const = 0;
};

struct written_format {
  std::string_view command;                        ///< name of the command: "to-hf"
  std::string_view help;                           ///< text about the command
  std::string_view out;                            ///< text about OUT
  std::unique_ptr<conversion_request> (*begin)();  ///< returns a request with the usual arguments

  /// Returns the name without "to-", by which Python knows the conversion.
  [[nodiscard]] constexpr std::string_view name() const {
    return command.starts_with("to-") ? command.substr(3) : command;
  }
};

/// The request of a conversion whose options are `Options(arguments)`, and which is run by `Write(arguments)`.
template <class Arguments, auto Options, auto Write>
class typed_request final : public conversion_request {
 public:
  [[nodiscard]] static std::unique_ptr<conversion_request> begin() { return std::make_unique<typed_request>(); }

  conversion_arguments& arguments() override { return arguments_; }
  std::vector<conversion_option> options() override { return Options(arguments_); }
  [[nodiscard]] core::result<void> write() const override { return Write(arguments_); }

 private:
  Arguments arguments_{};
};

// checkpoint_convert.cpp
extern const written_format fp32_output, hugging_face_output, merged_output;
// checkpoint_to_peft.cpp
extern const written_format peft_output;
// checkpoint_to_gguf.cpp
extern const written_format gguf_output;
// checkpoint_to_deepspeed.cpp
extern const written_format deepspeed_output, universal_output, distributed_output, reshaped_output;

/// All conversions, in the order of the help.
inline constexpr std::array<const written_format*, 9> all_written{
    &fp32_output,      &hugging_face_output, &merged_output,      &peft_output,    &gguf_output,
    &deepspeed_output, &universal_output,    &distributed_output, &reshaped_output};

}  // namespace troupe::apps
