#include "apps/tune/tune_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace troupe::apps {
namespace {

constexpr std::string_view data_key = "parallel.data", tensor_key = "parallel.tensor",
                           pipeline_key = "parallel.pipeline", sequence_key = "parallel.sequence",
                           context_key = "parallel.context", micro_batch_key = "train_micro_batch_size_per_gpu",
                           micro_batches_key = "gradient_accumulation_steps", stage_key = "zero_optimization.stage",
                           recompute_key = "activation_checkpointing.enabled", schedule_key = "pipeline.schedule",
                           chunks_key = "pipeline.chunks", bucket_key = "zero_optimization.reduce_bucket_size";

constexpr uint32_t last_stage_of_zero = 3;

/// Least number of elements of a bucket that is tried in place of the file's.
constexpr uint64_t least_bucket_elements = 1024;

struct tried_schedule {
  const char* name;
  uint32_t chunks;
};

/// The schedules that are tried. `gpipe` and `looped_bfs` idle as long as 1F1B does and hold more activations.
constexpr tried_schedule tried_schedules[] = {
    {"1f1b", 0}, {"interleaved_1f1b", 2}, {"zb_h1", 0}, {"zb_h2", 0}, {"zb1p", 2}, {"zb_v", 0}, {"dual_pipe_v", 0}};

std::vector<uint64_t> all_divisors_of(uint64_t n) {
  std::vector<uint64_t> out;
  for (uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::ranges::sort(out);
  return out;
}

/// Enumerates the settings of one space.
class enumerator {
 public:
  explicit enumerator(const tune_space& space) : space_(space), out_{space.own} {}

  core::result<std::vector<tune_setting>> all() {
    for (const auto& way : space_.ways) {
      tune_setting with = space_.own;
      with.data = way.data;
      with.tensor = way.tensor;
      with.pipeline = way.pipeline;
      with.sequence = way.sequence;
      with.context = way.context;
      if (with.data == 0 || space_.global_batch % with.data != 0) continue;
      add_batches(with);
    }
    if (count_ > tune_settings_max)
      return core::refused(
          fmt::format("tune: wanted at most {} settings to compare, got {}; give the values of some keys with --set, "
                      "such as --set parallel.context=1",
                      tune_settings_max, count_));
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_pinned(std::string_view key) const { return space_.pinned.contains(std::string(key)); }

  void add_batches(tune_setting with) {
    const uint64_t samples = space_.global_batch / with.data;
    for (const uint64_t micro_batch : all_divisors_of(samples)) {
      with.micro_batch = micro_batch;
      with.micro_batches = samples / micro_batch;
      add_schedules(with);
    }
  }

  void add_schedules(tune_setting with) {
    if (with.pipeline == 1) {
      with.chunks = space_.own.pipeline == 1 ? space_.own.chunks : 0;
      add_stages(with);
      return;
    }
    add_stages(with);  // the file's schedule
    for (const auto& [name, chunks] : tried_schedules) {
      with.schedule = name;
      with.chunks = chunks;
      if (with.schedule != space_.own.schedule) add_stages(with);
    }
  }

  void add_stages(tune_setting with) {
    const bool divides = with.sharing_ranks() > 1;
    for (with.stage = 0; with.stage <= last_stage_of_zero; ++with.stage) {
      const bool is_kept = with.stage == space_.own.stage && is_pinned(stage_key);
      if (!divides && with.stage > 0 && !is_kept) continue;
      for (const bool recompute : {false, true}) {
        with.recompute = recompute;
        with.bucket_elements = space_.own.bucket_elements;
        add(with);
        if (divides) add_buckets(with);
      }
    }
  }

  void add_buckets(tune_setting with) {
    for (const uint64_t parts : {uint64_t{4}, uint64_t{16}}) {
      const uint64_t elements = space_.elements / parts;
      if (elements < least_bucket_elements) return;
      with.bucket_elements = std::bit_floor(elements);
      if (with.bucket_elements < space_.own.bucket_elements) add(with);
    }
  }

  [[nodiscard]] bool keeps_pinned(const tune_setting& s) const {
    const auto& own = space_.own;
    const auto keeps = [&](std::string_view key, bool is_equal) { return is_equal || !is_pinned(key); };
    return keeps(data_key, s.data == own.data) && keeps(tensor_key, s.tensor == own.tensor) &&
           keeps(pipeline_key, s.pipeline == own.pipeline) && keeps(sequence_key, s.sequence == own.sequence) &&
           keeps(context_key, s.context == own.context) && keeps(micro_batch_key, s.micro_batch == own.micro_batch) &&
           keeps(micro_batches_key, s.micro_batches == own.micro_batches) && keeps(stage_key, s.stage == own.stage) &&
           keeps(recompute_key, s.recompute == own.recompute) && keeps(schedule_key, s.schedule == own.schedule) &&
           keeps(chunks_key, s.chunks == own.chunks) && keeps(bucket_key, s.bucket_elements == own.bucket_elements);
  }

  void add(const tune_setting& s) {
    if (s == space_.own || !keeps_pinned(s)) return;
    if (++count_ <= tune_settings_max) out_.push_back(s);
  }

  const tune_space& space_;
  std::vector<tune_setting> out_;
  uint64_t count_ = 1;  // number of settings, the file's own included
};

/// A value of YAML, or the mapping of a section.
struct yaml_node {
  std::string value;
  std::vector<std::pair<std::string, yaml_node>> entries;
};

void put(yaml_node& at, std::string_view key, const std::string& value) {
  const size_t dot = key.find('.');
  const std::string name(key.substr(0, dot));
  auto found = std::ranges::find(at.entries, name, [](const auto& entry) -> const std::string& { return entry.first; });
  if (found == at.entries.end()) {
    at.entries.emplace_back(name, yaml_node{});
    found = std::prev(at.entries.end());
  }
  if (dot == std::string_view::npos)
    found->second = yaml_node{value, {}};
  else
    put(found->second, key.substr(dot + 1), value);
}

void write(const yaml_node& from, size_t indent, std::string& out) {
  for (const auto& [name, node] : from.entries) {
    out += std::string(indent, ' ') + name + ":";
    if (node.entries.empty()) {
      out += " " + node.value + "\n";
    } else {
      out += "\n";
      write(node, indent + 2, out);
    }
  }
}

}  // namespace

tune_setting with_degrees(tune_setting setting, const config::parallel_section& p) {
  setting.data = p.data;
  setting.tensor = p.tensor;
  setting.pipeline = p.pipeline;
  setting.sequence = p.sequence;
  setting.context = p.context;
  return setting;
}

tune_setting setting_of(const config::job_config& job) {
  tune_setting out;
  out.micro_batch = job.train_micro_batch_size_per_gpu;
  out.micro_batches = job.gradient_accumulation_steps;
  out.stage = job.zero_optimization.stage;
  out.recompute = job.activation_checkpointing.enabled;
  out.schedule = job.pipeline.schedule;
  out.chunks = job.pipeline.chunks;
  out.bucket_elements = job.zero_optimization.reduce_bucket_size;
  return with_degrees(std::move(out), job.parallel);
}

std::vector<std::string_view> tuned_keys() {
  return {data_key,          tensor_key, pipeline_key,  sequence_key, context_key, micro_batch_key,
          micro_batches_key, stage_key,  recompute_key, schedule_key, chunks_key,  bucket_key};
}

std::set<std::string> pinned_by(const std::vector<std::string>& set) {
  std::set<std::string> out;
  for (const auto& text : set) {
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const bool is_auto = equals != std::string::npos && text.substr(equals + 1) == "auto";
    for (const auto tuned : tuned_keys()) {
      if (tuned != key && !tuned.starts_with(key + ".")) continue;
      if (is_auto)
        out.erase(std::string(tuned));
      else
        out.emplace(tuned);
    }
  }
  return out;
}

core::result<std::vector<tune_setting>> settings_of(const tune_space& space) { return enumerator(space).all(); }

std::vector<std::string> overrides_between(const tune_setting& own, const tune_setting& to, uint64_t global_batch) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view key, const auto& from, const auto& value) {
    if (from != value) out.push_back(fmt::format("{}={}", key, value));
  };
  add(data_key, own.data, to.data);
  add(tensor_key, own.tensor, to.tensor);
  add(pipeline_key, own.pipeline, to.pipeline);
  add(sequence_key, own.sequence, to.sequence);
  add(context_key, own.context, to.context);
  if (own.data != to.data || own.micro_batch != to.micro_batch || own.micro_batches != to.micro_batches) {
    out.push_back(fmt::format("train_batch_size={}", global_batch));
    out.push_back(fmt::format("{}={}", micro_batch_key, to.micro_batch));
    out.push_back(fmt::format("{}={}", micro_batches_key, to.micro_batches));
  }
  add(stage_key, own.stage, to.stage);
  add(recompute_key, own.recompute, to.recompute);
  add(schedule_key, own.schedule, to.schedule);
  add(chunks_key, own.chunks, to.chunks);
  add(bucket_key, own.bucket_elements, to.bucket_elements);
  return out;
}

std::string yaml_of_overrides(const std::vector<std::string>& overrides) {
  yaml_node all;
  for (const auto& one : overrides) {
    const size_t equals = one.find('=');
    if (equals != std::string::npos) put(all, one.substr(0, equals), one.substr(equals + 1));
  }
  std::string out;
  write(all, 0, out);
  return out;
}

}  // namespace troupe::apps
