#include "apps/compress/compress_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/compress/compress_clean.hpp"
#include "apps/compress/compress_target.hpp"
#include "apps/compress/compress_validation.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/gguf/mixture.hpp"

namespace troupe::apps {
namespace {

/// Returns all names that `--to` accepts, for an error message.
std::string target_names() {
  std::string out;
  const auto add = [&out](std::string_view prefix, std::string_view name) {
    out.append(out.empty() ? "{" : ",").append(prefix).append(name);
  };
  for (const auto name : formats::scheme_formats()) add(folder_prefix, name);
  for (const auto& name : formats::all_mixtures()) add(gguf_prefix, name);
  return out + "}";
}

namespace fs = std::filesystem;
using core::human_bytes;

void print_layers(const compress_summary& report) {
  size_t width = 5;
  for (const auto& l : report.layers) width = std::max(width, l.name.size());
  std::printf("%s\n", fmt::format("{:<{}}  {:>13}  {:>5}  {:>7}", "layer", width, "out x in", "bits", "error").c_str());
  for (const auto& l : report.layers)
    std::printf("%s\n", fmt::format("{:<{}}  {:>13}  {:>5.2f}  {:>6.2f}%", core::shown(l.name), width,
                                    fmt::format("{} x {}", l.rows, l.columns), l.bits, 100 * l.error)
                            .c_str());
}

std::string last_line(const compress_summary& s, const compress_calibration* with, std::optional<double> before,
                      std::optional<double> after) {
  std::string out = fmt::format("{} -> {} ({:.1f} bits a weight)", human_bytes(static_cast<double>(s.source_bytes)),
                                human_bytes(static_cast<double>(s.tensor_bytes)),
                                8 * static_cast<double>(s.tensor_bytes) / static_cast<double>(s.weights));
  if (before && after) out += fmt::format("  validation loss {:.4f} -> {:.4f} {}", *before, *after, with->loss_unit());
  return out;
}

/// Owns the folder with the intermediate results of a compression method, from which the same command continues if this
/// process was stopped or killed.
class work_folder {
 public:
  explicit work_folder(const fs::path& out)
      : path_(out.parent_path() / fmt::format(".{}.work", out.filename().string())) {}
  work_folder(const work_folder&) = delete;
  work_folder& operator=(const work_folder&) = delete;
  ~work_folder() {
    std::error_code e;
    if (!is_kept_) fs::remove_all(path_, e);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { is_kept_ = true; }

 private:
  fs::path path_;
  bool is_kept_ = false;
};

fs::path without_slash(const fs::path& p) { return p.has_filename() ? p : p.parent_path(); }

/// Runs the command after the checks: computes the loss of the source, runs the compression method, writes the output,
/// and computes the loss of the output.
class compression {
 public:
  compression(const compress_arguments& a, const described_checkpoint& from, const compress_target& target,
              compress_calibration* with, const tensor_grids& trained)
      : a_(a), from_(from), target_(target), with_(with), trained_(trained), writing_(a.source, a.output) {}

  core::result<void> run() {
    TROUPE_ASSIGN(const auto needed, target_.needed_bytes());
    TROUPE_TRY(writing_.prepare(from_.source, target_.kind(), needed));
    work_folder beside(without_slash(fs::absolute(a_.output.out)));
    auto ok = make(beside.path());
    if (ok || ok.error().kind != error_kind::stopped || with_ == nullptr) return ok;
    beside.keep();
    return fail(ok.error().kind, ok.error().text + "; the same command continues from there");
  }

 private:
  core::result<void> make(const fs::path& beside) {
    compress_work work{.source = from_.source, .prepared = {}};
    TROUPE_TRY(measure(from_.source, beside, false, before_));
    if (with_ != nullptr) {
      TROUPE_ASSIGN(auto prepared, with_->prepare(target_, beside));
      work = std::move(prepared);
    }
    if (keeps_trained()) TROUPE_TRY(store_trained(trained_, target_, beside, work));
    const fs::path out = writing_.place().working();
    TROUPE_ASSIGN(const auto summary, target_.write(work.source, work.prepared, out, writing_.progress()));
    if (keeps_trained()) remark_ = as_trained(summary, work.prepared, trained_);
    if (tells_loss()) {
      TROUPE_ASSIGN(const auto made, checkpoint::open_source(out));
      TROUPE_TRY(measure(made, beside, target_.rounds_inputs(), after_));
    }
    TROUPE_TRY(writing_.commit());
    if (a_.source.verbosity != verbosity::quiet) tell(summary);
    return {};
  }

  /// True if weights keep the quantisation grids on which they were trained. Only the method rtn (round to nearest)
  /// permits that; other methods choose values of their own.
  [[nodiscard]] bool keeps_trained() const { return !trained_.empty() && a_.method == "rtn"; }
  [[nodiscard]] bool tells_loss() const { return with_ != nullptr && !with_->held_out().empty(); }

  core::result<void> measure(const formats::tensor_source& of, const fs::path& beside, bool rounds_inputs,
                             std::optional<double>& to) {
    if (!tells_loss()) return {};
    TROUPE_ASSIGN(const auto loss, with_->loss(of, beside, rounds_inputs));
    to = loss;
    return {};
  }

  void tell(const compress_summary& s) const {
    print_layers(s);
    if (!remark_.empty()) std::printf("%s\n", remark_.c_str());
    if (!s.remark.empty()) std::printf("%s\n", s.remark.c_str());
    std::printf("%s\n", target_.opened_by(a_.output.out).c_str());
    if (tells_loss()) std::printf("validation: %s\n", with_->held_out().c_str());
    std::printf("%s\n", last_line(s, with_, before_, after_).c_str());
  }

  const compress_arguments& a_;
  const described_checkpoint& from_;
  const compress_target& target_;
  compress_calibration* with_;
  const tensor_grids& trained_;
  std::string remark_;
  conversion writing_;
  std::optional<double> before_, after_;
};

core::result<void> write(const compress_arguments& a, const calibration_opener& open) {
  TROUPE_TRY(check_method(a));
  if (a.clean && a.to.empty()) return write_clean(a);
  tensor_grids trained;
  TROUPE_ASSIGN(const auto opened, open_to_compress(a, trained));
  if (const auto* family = families::find(opened.model.model_type); family != nullptr && family->is_encoder)
    return fail(error_kind::bad_input,
                fmt::format("SOURCE: wanted a model that finds the next token, got a {} model, which is not compressed "
                            "yet",
                            family->model_type));
  TROUPE_ASSIGN(const auto target, make_target(a, opened));
  std::unique_ptr<compress_calibration> with;
  if (open) {
    TROUPE_ASSIGN(auto calibration, open(a, opened));
    with = std::move(calibration);
  }
  return compression(a, opened, *target, with.get(), trained).run();
}

}  // namespace

compress_command::compress_command(CLI::App& parent)
    : program_command(parent, "compress", "a trained model in fewer bits, for others to run"),
      arguments_(std::make_unique<compress_arguments>()) {
  auto& a = *arguments_;
  command_->footer("Exit codes: 0 well; 1 failed; 2 arguments or SOURCE refused; 130, 143 interrupted.");
  command_->add_option("source", a.source.path, "a checkpoint or weights, as troupe checkpoint takes them")->required();
  command_->add_option("out", a.output.out, "a folder, or a GGUF file")->required();
  command_
      ->add_option("--to", a.to,
                   "compressed-tensors:FORMAT, a folder (w8a8 has int8 codes of activations, too), or "
                   "gguf:TYPE, a file for llama.cpp, as `troupe checkpoint to-gguf` writes it")
      ->type_name(target_names());
  command_->add_flag("--clean", a.clean,
                     "first make the compression of the run permanent: apply grids and masks to the weights, cut "
                     "related modules; without --to, write a checkpoint from which a run resumes");
  command_
      ->add_option(
          "--method", a.method,
          "rtn: round to nearest; gptq: each column's error is added to the columns after it; awq: columns that "
          "matter are scaled up first; smoothquant: outliers of inputs move into weights. All but rtn need "
          "--calibrate")
      ->capture_default_str()
      ->type_name("{rtn,gptq,awq,smoothquant}");
  command_->add_option("--embeddings", a.embeddings, "type of embedding and head in a GGUF file, such as q8_0");
  command_->add_option("--calibrate", a.calibrate,
                       "a text like those that the model will read; its last tenth is held out for the loss");
  command_->add_option("--validate", a.validate,
                       "a text for the loss before and after, or none; by default the held-out part of the run that "
                       "wrote SOURCE, else of --calibrate");
  command_->add_option("--samples", a.samples, "number of windows for calibration")->capture_default_str();
  command_->add_option("--sequence", a.sequence, "tokens of a window; by default what the model reads, at most 512");
  command_->add_option("--host-memory", a.host_memory,
                       "memory that computing with the model may take, such as 4GB; by default as much as it needs");
  command_->add_option("--tokenizer", a.tokenizer, "a path or `bytes`; by default the one that the checkpoint has");
  command_->add_option("--group", a.group, "columns that share a scale, 0: a row; default: 128 for int2 to int7, or 0");
  command_->add_flag("--asymmetric", a.asymmetric, "give groups zero points (int2 to int8)");
  command_->add_option("--dtype", a.dtype, "type of scales and of weights that are not compressed")
      ->capture_default_str()
      ->type_name("{fp32,bf16,fp16}");
  command_->add_option("--tag", a.source.tag,
                       "which checkpoint of a folder; by default the one that its `latest` names");
  command_
      ->add_flag("--fallback-to-previous", a.source.fallback_to_previous,
                 "if the newest checkpoint cannot be opened, take the newest that can")
      ->excludes("--tag");
  command_->add_option("--map", a.source.map, "a file that gives the tensors other names");
  command_->add_option("--model-config", a.model_config,
                       "Hugging Face's config.json of the model; by default what the checkpoint says of it");
  command_
      ->add_option("--ignore-key", a.source.ignored_keys,
                   "a key of config.json to read as if it were not there; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command_->add_flag("--allow-overflow", a.source.allow_overflow,
                     "clamp and count values outside the range of the written type");
  command_->add_option("--max-shard-size", a.max_shard_size, "largest size of one file")->capture_default_str();
  command_->add_flag("--force", a.output.force, "replace OUT if an earlier conversion wrote it");
  add_quiet(*command_, a.source.verbosity);
}

compress_command::~compress_command() = default;

bool compress_command::computes() const {
  return arguments_->computes() || (arguments_->validate.empty() && has_own_validation(*arguments_));
}

core::result<void> compress_command::check_options(bool computes) const {
  const auto& a = *arguments_;
  const bool folder = a.to.starts_with(folder_prefix), cleans_alone = a.clean && a.to.empty();
  // Codes that are rounded to nearest on grids of a folder's formats depend on no text.
  const bool fits = !folder || a.method != "rtn";
  const bool is_calibration_read = fits || (a.validate.empty() && (a.calibrate.empty() || !has_own_validation(a)));
  const bool reads_text = !a.calibrate.empty() || (!a.validate.empty() && a.validate != no_validation);
  return refuse_idle(
      given_in(*command_),
      {{!cleans_alone,
        "--to, which is not given",
        {"--method", "--embeddings", "--calibrate", "--validate", "--samples", "--sequence", "--host-memory",
         "--tokenizer", "--group", "--asymmetric", "--dtype", "--max-shard-size"}},
       {!a.calibrate.empty(), "--calibrate, which is not given", {"--samples"}},
       {fits, "another --method than rtn, or gguf:TYPE", {"--samples"}},
       {is_calibration_read,
        "another --method than rtn, gguf:TYPE, or a loss of the text's own last tenth (without --validate, for a "
        "SOURCE whose run held no text out)",
        {"--calibrate"}},
       {reads_text, "--calibrate or --validate FILE, which are not given", {"--sequence"}},
       {computes, "--calibrate or --validate FILE, which are not given", {"--host-memory"}},
       {folder, fmt::format("{}FORMAT", folder_prefix), {"--dtype", "--max-shard-size"}},
       {!folder || reads_text, fmt::format("{}TYPE, --calibrate or --validate FILE", gguf_prefix), {"--tokenizer"}}});
}

int compress_command::run(const calibration_opener& open) {
  const stop_request stop;
  if (const auto ok = check_options(static_cast<bool>(open)); !ok) return ended(ok);
  const auto done = write(*arguments_, open);
  return done ? 0 : ended_with(with_way_around(done.error(), arguments_->source));
}

}  // namespace troupe::apps
