#include "apps/python/conversions.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/checkpoint/checkpoint_convert.hpp"
#include "apps/python/interruptible.hpp"
#include "apps/python/keywords.hpp"
#include "apps/python/python_error.hpp"

namespace troupe::apps {
namespace {

constexpr std::string_view text = "text", number = "a whole number", real = "a number", truth = "True or False";

template <class Arguments>
Arguments begun(const source_arguments& source, const output_arguments& output) {
  Arguments out;
  out.source = source;
  out.output = output;
  return out;
}

void take(keywords& k, weights_arguments& a) {
  k.take("max_shard_size", a.max_shard_size, text);
  k.take("model_config", a.model_config, text);
}

void take(keywords& k, deepspeed_arguments& a) {
  k.take("dtype", a.dtype, text);
  k.take("job", a.job, text);
  k.take("model_config", a.model_config, text);
  k.take("integer_steps", a.integer_steps, truth);
}

}  // namespace

void convert(const source_arguments& source, const output_arguments& output, const std::string& to,
             const nanobind::dict& options) {
  keywords k("convert(to='" + to + "')", options);
  // Reads the options that all commands share, refuses unknown ones, and runs the conversion, which refuses options
  // without effect.
  const auto finish = [&](auto command, auto& arguments, source_arguments& of) {
    k.take("allow_overflow", of.allow_overflow, truth);
    k.take("ignore_keys", of.ignored_keys, "a list of texts");
    k.end();
    if constexpr (requires { arguments.given; }) arguments.given = k.options();
    if constexpr (requires { arguments.written.given; }) arguments.written.given = k.options();
    interruptible([&](const storage::progress_function& goes_on) {
      of.progress = goes_on;
      return command(arguments);
    });
  };
  if (to == "fp32") {
    auto a = begun<weights_arguments>(source, output);
    take(k, a);
    k.take("exclude_frozen", a.exclude_frozen, truth);
    finish(write_fp32, a, a.source);
  } else if (to == "hf") {
    auto a = begun<weights_arguments>(source, output);
    take(k, a);
    k.take("dtype", a.dtype, text);
    finish(write_hugging_face, a, a.source);
  } else if (to == "gguf") {
    auto a = begun<gguf_arguments>(source, output);
    k.take("type", a.type, text);
    k.take("tokenizer", a.tokenizer, text);
    k.take("model_config", a.model_config, text);
    finish(write_gguf, a, a.source);
  } else if (to == "deepspeed") {
    auto a = begun<deepspeed_arguments>(source, output);
    k.take("stage", a.stage, number);
    k.take("ranks", a.ranks, number);
    take(k, a);
    finish(write_deepspeed, a, a.source);
  } else if (to == "universal") {
    auto a = begun<deepspeed_arguments>(source, output);
    take(k, a);
    finish(write_universal, a, a.source);
  } else if (to == "dcp") {
    auto a = begun<deepspeed_arguments>(source, output);
    k.take("ranks", a.ranks, number);
    k.take("job", a.job, text);
    k.take("model_config", a.model_config, text);
    finish(write_distributed, a, a.source);
  } else if (to == "reshape") {
    reshape_arguments a;
    a.written = begun<deepspeed_arguments>(source, output);
    k.take("tp", a.tensor, number);
    k.take("pp", a.pipeline, number);
    k.take("dp", a.written.ranks, number);
    k.take("partition", a.partition, "a list of whole numbers");
    k.take("stage", a.written.stage, number);
    k.take("qkv_version", a.qkv_version, real);
    k.take("to_qkv_version", a.to_qkv_version, real);
    k.take("heads", a.heads, number);
    k.take("map_back", a.map_back, text);
    k.needs("heads", "to_qkv_version");
    take(k, a.written);
    finish(write_reshaped, a, a.written.source);
  } else {
    throw python_error(
        {core::error_kind::bad_input,
         "convert(to=...): wanted fp32, hf, gguf, deepspeed, universal, dcp or reshape, got '" + to + "'"});
  }
}

}  // namespace troupe::apps
