// Checks that the memory tier of states changes no bit: compares every combination of tiers with a run in memory at
// stage 0, over windows, sub-groups, pipelining, types, ranks, optimizers. The full product is too large: rows of
// settings are drawn so that every possible pair of values occurs. TROUPE_CASES, as in `make soak`, draws further rows.
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "tests/parity/placed_states.hpp"

BOOST_AUTO_TEST_SUITE(tiers)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// A named value of a factor: settings in which {folder} is replaced by the test's own folder.
struct choice {
  const char* what;
  settings set;
};
using factor = std::vector<choice>;

factor every_place() {
  factor out;
  for (const auto& p : places) out.push_back({"", set_of(p)});
  return out;
}

/// Returns the factors that change results; the reference run of a row uses the same values.
const std::vector<factor>& numbers() {
  static const std::vector<factor> all = {
      {{"fp32", {}},
       {"bf16", {"bf16.enabled=true"}},
       {"bf16, sums in fp32", {"bf16.enabled=true", "data_types.grad_accum_dtype=fp32"}},
       {"fp16", {"fp16.enabled=true", "fp16.initial_scale_power=18", "fp16.hysteresis=1"}}},
      {{"1 rank", {"parallel.data=1"}}, {"2 ranks", {"parallel.data=2"}}, {"3 ranks", {"parallel.data=3"}}},
      {{"once", {"gradient_accumulation_steps=1"}},
       {"ranks first", {"gradient_accumulation_steps=3", "gradient_order=per_micro_batch"}},
       {"micro-batches first", {"gradient_accumulation_steps=3", "gradient_order=per_step"}}},
      {{"AdamW", {}},
       {"SGD", {"optimizer.type=SGD", "optimizer.params.lr=0.1"}},
       {"momentum", {"optimizer.type=SGD", "optimizer.params.lr=0.1", "optimizer.params.momentum=0.9"}},
       {"Lion", {"optimizer.type=Lion", "optimizer.params.lr=0.001"}},
       {"Adagrad",
        {"optimizer.type=Adagrad", "optimizer.params.lr=0.05", "optimizer.params.initial_accumulator_value=0.1"}}},
      {{"GPT-2", {}}, {"GPT-2, some frozen", {}}, {"Llama", {}}},
      {{"clipped", {}}, {"not clipped, so updated ahead of the vote", {"gradient_clipping=0"}}},
  };
  return all;
}

/// Returns the factors that must not change results. The last value of each factor is for rows without swapping.
const std::vector<factor>& others() {
  static const std::vector<factor> all = {
      every_place(),
      {{"no pipeline", {optimizer + "pipeline_read=false", optimizer + "pipeline_write=false"}},
       {"reads ahead", {optimizer + "pipeline_read=true"}},
       {"writes behind", {optimizer + "pipeline_write=true"}},
       {"both", {optimizer + "pipeline_read=true", optimizer + "pipeline_write=true"}}},
      {{"windows as they come", {}}, {"1", {optimizer + "buffer_count=4"}}, {"5", {optimizer + "buffer_count=20"}}},
      {{"parameter windows as they come", {}}, {"1", {param + "buffer_count=1"}}, {"7", {param + "buffer_count=7"}}},
      {{"sub-groups of a page", {zero + "sub_group_size=1"}},
       {"of some pages", {zero + "sub_group_size=4100"}},
       {"of 20,000", {zero + "sub_group_size=20000"}},
       {"as they come", {}}},
      {{"all", {}}, {"half", {optimizer + "ratio=0.5"}}, {"none", {optimizer + "ratio=0"}}},
      {{"no cache", {param + "max_in_cpu=0"}}, {"some", {param + "max_in_cpu=9000"}}, {"as it comes", {}}},
      {{"persistence 0", {zero + "stage3_param_persistence_threshold=0"}},
       {"of biases", {zero + "stage3_param_persistence_threshold=100"}},
       {"as it comes", {}}},
      {{"a bucket each", {zero + "reduce_bucket_size=1"}}, {"buckets", {zero + "reduce_bucket_size=8192"}}, {"1", {}}},
      {{"no prefetch", {zero + "stage3_prefetch_bucket_size=0", zero + "stage3_max_reuse_distance=0"}},
       {"little room", {zero + "stage3_prefetch_bucket_size=20000", zero + "stage3_max_live_parameters=20000"}},
       {"as it comes", {}}},
      {{"blocks of a page", {"aio.block_size=4096", "aio.queue_depth=2"}},
       {"one by one", {"aio.single_submit=true", "aio.overlap_events=false"}},
       {"as they come", {}}},
      {{"recompute", {"activation_checkpointing.enabled=true"}},
       {"inputs on the host", {"activation_checkpointing.enabled=true", "cluster.offload_activations=cpu"}},
       {"inputs in files", {"activation_checkpointing.enabled=true", "cluster.offload_activations=nvme"}},
       {"store", {}}},
      {{"checksums off", {"cluster.swap_checksums=false"}}, {"overlap off", {zero + "overlap_comm=false"}}, {"", {}}},
  };
  return all;
}

// Index of the chosen value of each factor: those of numbers(), then those of others().
using row = std::vector<size_t>;

const std::vector<factor>& factors() {
  static const std::vector<factor> all = [] {
    auto out = numbers();
    out.insert(out.end(), others().begin(), others().end());
    return out;
  }();
  return all;
}

/// Returns false for keys that have no effect at the row's stage or tier; the row omits them.
bool has_meaning(const placed& p, const std::string& key) {
  const bool swaps = is_nvme(p.optimizer) || is_nvme(p.parameters);
  if (key.starts_with(optimizer + "ratio")) return p.stage == 3 && std::string_view(p.optimizer) != "none";
  if (key.starts_with(optimizer)) return swaps && std::string_view(p.optimizer) != "none";
  if (key.starts_with(param)) return is_nvme(p.parameters);
  if (key.starts_with(zero + "stage3")) return p.stage == 3;
  if (key == "cluster.offload_activations=nvme") return swaps;
  if (key.starts_with("aio") || key.starts_with("cluster.swap")) return swaps;
  return true;
}

const placed& place_of(const row& r) { return places[r[numbers().size()]]; }

/// Returns the number of steps of a row; fp16 needs more, because the first ones are skipped.
uint64_t steps_of(const row& r) { return std::string_view(numbers()[0][r[0]].what) == "fp16" ? 10 : 5; }

settings numbers_of(const row& r) {
  settings out = small_batches;
  for (size_t f = 0; f < numbers().size(); ++f) out = out + numbers()[f][r[f]].set;
  return out;
}

settings others_of(const row& r, const std::filesystem::path& folder) {
  settings out;
  for (size_t f = 0; f < others().size(); ++f)
    for (auto key : others()[f][r[numbers().size() + f]].set) {
      if (f > 0 && !has_meaning(place_of(r), key)) continue;
      if (const auto at = key.find("{folder}"); at != std::string::npos) key.replace(at, 8, folder.string());
      out.push_back(key);
    }
  return out;
}

using two_values = std::array<size_t, 4>;  // two factors and a value of each: factor, value, factor, value

class pairs {
 public:
  /// Collects all pairs of values among factors [first, end), and between them and the factors before `first`.
  pairs(size_t first, size_t end) : first_(first), end_(end) {
    for (size_t f = 0; f < end; ++f)
      for (size_t g = std::max(first, f + 1); g < end; ++g)
        for (size_t i = 0; i < factors()[f].size(); ++i)
          for (size_t k = 0; k < factors()[g].size(); ++k) left_.insert({f, i, g, k});
  }
  [[nodiscard]] size_t left() const { return left_.size(); }

  /// Returns a row that begins with a pair that has not occurred yet; every further value is the one with the most new
  /// pairs. The values before `first` are copied from one of `beginnings`.
  row next(std::mt19937& random, const std::vector<row>& beginnings) {
    row out(end_, open);
    if (!left_.empty()) {
      const auto& [f, i, g, k] = *left_.begin();
      out[f] = i;
      out[g] = k;
    }
    begin(out, beginnings, random());
    for (size_t f = first_; f < end_; ++f) {
      if (out[f] != open) continue;
      size_t most = 0;
      const size_t n = factors()[f].size(), from = random() % n;
      for (size_t step = 0; step < n; ++step) {
        const size_t value = (from + step) % n, gained = 1 + gain(out, f, value);
        if (gained <= most) continue;
        most = gained;
        out[f] = value;
      }
    }
    for (size_t f = 0; f < out.size(); ++f)
      for (size_t g = f + 1; g < out.size(); ++g) left_.erase({f, out[f], g, out[g]});
    return out;
  }

 private:
  static constexpr size_t open = SIZE_MAX;

  [[nodiscard]] size_t gain(const row& r, size_t f, size_t value) const {
    size_t out = 0;
    for (size_t g = 0; g < r.size(); ++g)
      if (g != f && r[g] != open)
        out += left_.contains(f < g ? two_values{f, value, g, r[g]} : two_values{g, r[g], f, value}) ? 1 : 0;
    return out;
  }

  void begin(row& out, const std::vector<row>& beginnings, size_t from) const {
    const row* best = nullptr;
    size_t most = 0;
    for (size_t n = 0; n < beginnings.size(); ++n) {
      const row& b = beginnings[(from + n) % beginnings.size()];
      size_t gained = 1;
      for (size_t f = 0; f < b.size() && gained > 0; ++f)
        gained = out[f] == open || out[f] == b[f] ? gained + gain(out, f, b[f]) : 0;
      if (gained <= most) continue;
      most = gained;
      best = &b;
    }
    if (best != nullptr) std::copy(best->begin(), best->end(), out.begin());
  }

  size_t first_, end_;
  std::set<two_values> left_;
};

std::vector<row> covering(size_t first, size_t end, const std::vector<row>& beginnings, uint64_t more) {
  std::mt19937 random(1);
  pairs wanted(first, end);
  std::vector<row> out;
  while (wanted.left() > 0) out.push_back(wanted.next(random, beginnings));
  for (uint64_t i = 0; i < more; ++i) out.push_back(wanted.next(random, beginnings));
  return out;
}

/// Returns rows that cover all pairs with few different reference runs, followed by additional random rows for `make
/// soak`.
std::vector<row> rows() {
  const char* cases = std::getenv("TROUPE_CASES");
  const uint64_t more = cases == nullptr ? 0 : std::strtoull(cases, nullptr, 10) / 20;
  const auto references = covering(0, numbers().size(), {}, more / 20);
  return covering(numbers().size(), factors().size(), references, more);
}

class jobs {
 public:
  const small_job& of(const row& r) { return *all_[r[4]]; }
  /// Returns the result of the row's reference run, in memory at stage 0, which is computed only once.
  const run_result& reference(const row& r) {
    const row key(r.begin(), r.begin() + static_cast<long>(numbers().size()));
    const auto found = references_.find(key);
    if (found != references_.end()) return found->second;
    return references_[key] = train(of(r), numbers_of(r) + settings{zero + "stage=0"}, steps_of(r));
  }

 private:
  std::unique_ptr<small_job> all_[3] = {std::make_unique<small_job>(gpt2), std::make_unique<small_job>(frozen_gpt2),
                                        std::make_unique<small_job>(llama)};
  std::map<row, run_result> references_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_pair_of_settings_leaves_the_bits_of_the_run_in_memory) {
  jobs all;
  uint64_t overflows = 0;
  for (const auto& r : rows()) {
    const auto& job = all.of(r);
    const auto set = numbers_of(r) + others_of(r, job.folder().path());
    BOOST_TEST_CONTEXT(factors()[4][r[4]].what << ": " << text_of(set)) {
      const auto got = train(job, set, steps_of(r));
      check_same(got, all.reference(r));
      overflows += got.skipped;
      BOOST_TEST(got.skipped < steps_of(r) - 2);
    }
  }
  BOOST_TEST(overflows > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
