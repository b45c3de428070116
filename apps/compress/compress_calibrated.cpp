#include "apps/compress/compress_calibrated.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "apps/base/stop_request.hpp"
#include "apps/base/terminal.hpp"
#include "apps/compress/calibration_texts.hpp"
#include "checkpoint/convert/weight_store.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "core/text.hpp"
#include "models/compress/unit_methods.hpp"
#include "models/compress/unit_walk.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Size in bytes from which on malloc maps a block separately, so that freeing it returns the memory to the system.
constexpr int mapped_bytes = 1 << 18;

models::unit_method method_of(const std::string& name) {
  if (name == "gptq") return models::unit_method::gptq;
  if (name == "awq") return models::unit_method::awq;
  return name == "smoothquant" ? models::unit_method::smooth : models::unit_method::importance;
}

/// Returns FNV-1a over all tokens and the beginnings of their documents, to identify the calibration text.
uint64_t digest_of(const models::token_windows& w) {
  uint64_t out = 0xcbf29ce484222325U;
  const auto add = [&](uint64_t x) { out = (out ^ x) * 0x100000001b3U; };
  for (const int64_t t : w.tokens) add(static_cast<uint64_t>(t));
  for (const uint32_t s : w.document_starts) add(s);
  return out;
}

class calibrated final : public compress_calibration {
 public:
  calibrated(const compress_arguments& a, const described_checkpoint& from, models::model_spec spec,
             calibration_texts texts)
      : a_(a), from_(from), spec_(std::move(spec)), texts_(std::move(texts)) {}

  [[nodiscard]] std::string held_out() const override { return texts_.held_out; }
  [[nodiscard]] std::string loss_unit() const override {
    return texts_.bytes_per_token > 0 ? "nats/byte" : "nats/token";
  }

  core::result<double> loss(const formats::tensor_source& of, const fs::path& beside, bool rounds_inputs) override {
    const auto folder = beside / "validation";
    std::error_code e;
    fs::create_directories(folder, e);
    if (e) return fail(error_kind::io, fmt::format("cannot make '{}': {}", folder.string(), e.message()));
    say("validation loss");
    TROUPE_ASSIGN(const auto walk, models::unit_walk::open(spec_, of, texts_.validation, folder, go_on));
    if (rounds_inputs) walk->round_inputs();
    const auto loss = walk->loss();
    clear();
    fs::remove_all(folder, e);
    if (!loss) return fail(loss.error());
    return *loss / (texts_.bytes_per_token > 0 ? texts_.bytes_per_token : 1);
  }

  core::result<compress_work> prepare(const compress_target& target, const fs::path& beside) override {
    if (texts_.calibration.count() == 0) return compress_work{.source = from_.source, .prepared = {}};
    store_.reset();
    TROUPE_ASSIGN(auto store, checkpoint::weight_store::open(beside, purpose()));
    store_ = std::make_unique<checkpoint::weight_store>(std::move(store));
    if (store_->steps() > 0 && a_.source.verbosity != verbosity::quiet)
      std::fprintf(stderr, "troupe: continues after step %s of an earlier process\n",
                   fmt::to_string(store_->steps()).c_str());
    TROUPE_ASSIGN(const auto walk, models::unit_walk::open(spec_, from_.source, texts_.calibration, beside, go_on));
    const auto progress = [&](uint64_t done, uint64_t steps) {
      say(fmt::format("{}: segment {} of {}", a_.method, done + 1, steps));
      return go_on();
    };
    auto ok = models::choose_weights(spec_, *walk, *store_,
                                     {.method = method_of(a_.method),
                                      .form_of = [&](const std::string& t) { return target.form_of(t); },
                                      .progress = progress});
    clear();
    if (!ok) return fail(ok.error());
    TROUPE_ASSIGN(auto prepared, store_->prepared());
    return compress_work{.source = store_->overlaid(from_.source), .prepared = std::move(prepared)};
  }

 private:
  static bool go_on() { return !stop_request::made(); }

  /// Returns text that names everything on which the bytes of the result depend, except the program itself.
  [[nodiscard]] std::string purpose() const {
    std::string files;
    for (const auto& f : from_.source.files) files += fmt::format("{} {} ", f.path.string(), f.bytes);
    std::error_code e;
    for (const auto& f : from_.source.files)
      if (f.is_stored()) files += fmt::format("{} ", fs::last_write_time(f.path, e).time_since_epoch().count());
    return fmt::format("{} {} {} group {} asymmetric {} dtype {} windows {} x {} {:016x} of {} {}", a_.method, a_.to,
                       a_.embeddings, a_.group.value_or(~uint64_t{0}), a_.asymmetric, a_.dtype,
                       texts_.calibration.count(), texts_.calibration.columns, digest_of(texts_.calibration),
                       formats::shown_place(from_.source), files);
  }

  void say(const std::string& what) {
    if (a_.source.verbosity == verbosity::quiet || !rewrites_lines(STDERR_FILENO)) return;
    rewrite_line(stderr, STDERR_FILENO, what);
    drawn_ = true;
  }
  void clear() {
    if (drawn_) rewrite_line(stderr, STDERR_FILENO, "");
    drawn_ = false;
  }

  const compress_arguments& a_;
  const described_checkpoint& from_;
  models::model_spec spec_;
  calibration_texts texts_;
  std::unique_ptr<checkpoint::weight_store> store_;
  bool drawn_ = false;
};

}  // namespace

core::result<std::unique_ptr<compress_calibration>> open_calibration(const compress_arguments& a,
                                                                     const described_checkpoint& from) {
  if (from.model.json.empty()) return fail(no_description_of(from.source));
  auto spec = computed_model(from);
  if (!spec) return fail(spec.error());
  // The weights of one unit after another are allocated and freed, in blocks of a few MiB. In the heap they would leave
  // unused memory of several units' size, so malloc maps these blocks separately.
  ::mallopt(M_MMAP_THRESHOLD, mapped_bytes);
  TROUPE_ASSIGN(auto texts, read_calibration_texts(a, from, *spec));
  if (!a.host_memory.empty()) {
    const auto budget = checkpoint::shard_bytes_from(a.host_memory);
    if (!budget) return fail(budget.error().in("--host-memory"));
    const uint64_t columns = std::max(texts.calibration.columns, texts.validation.columns);
    if (const uint64_t needed = models::walk_bytes(*spec, columns, texts.calibration.count() > 0); needed > *budget)
      return fail(error_kind::limit, fmt::format("--host-memory: one unit of the model at a time needs {}, got {}",
                                                 core::human_bytes(static_cast<double>(needed)),
                                                 core::human_bytes(static_cast<double>(*budget))));
  }
  return std::make_unique<calibrated>(a, from, std::move(*spec), std::move(texts));
}

}  // namespace troupe::apps
