// Rows of the key table for states that do not fit in device memory: the offload sections and further sections of
// `zero_optimization`, `aio`, and the offload keys of `cluster`. Leaves combinations of these keys to
// offload_rules.cpp.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using zero = zero_section;
constexpr auto section_of = &job::zero_optimization;

offload_device device_in(const node& v) {
  return v.text == "cpu" ? offload_device::cpu : v.text == "nvme" ? offload_device::nvme : offload_device::none;
}
std::string text_of(offload_device d) {
  return d == offload_device::cpu ? "cpu" : d == offload_device::nvme ? "nvme" : "none";
}

hand_made param_device() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.zero_optimization.offload_param.device = device_in(v);
            return std::nullopt;
          },
          [](const job& c) { return text_of(c.zero_optimization.offload_param.device); }};
}
hand_made optimizer_device() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.zero_optimization.offload_optimizer.device = device_in(v);
            return std::nullopt;
          },
          [](const job& c) { return text_of(c.zero_optimization.offload_optimizer.device); }};
}
hand_made activations_device() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.offload_activations = device_in(v);
            return std::nullopt;
          },
          [](const job& c) { return text_of(c.offload_activations); }};
}

/// Adds the keys that `offload_param` and `offload_optimizer` share.
template <auto Section>
void add_shared(section_rows& key, hand_made device, const char* buffers, std::string_view of_buffers) {
  key("device", text, "none", "The memory they live in: none (the device's), cpu, or nvme (swap files in nvme_path).")
      .one_of({"none", "cpu", "nvme"})
      .by_hand(device);
  key("nvme_path", path, "none", "The folder in which device nvme makes its own folder of swap files, troupe-swap.")
      .template into<section_of, Section, &offload_section::nvme_path>();
  key("buffer_count", integer, buffers, of_buffers)
      .at_least(0)
      .at_most(offload_buffers_max)
      .template into<section_of, Section, &offload_section::buffer_count>()
      .template tells<section_of, Section, &offload_section::buffer_count_given>();
  key("pin_memory", boolean, "true",
      "Device nvme: lock the windows onto the swap files, as far as the limit of locked memory goes.")
      .template into<section_of, Section, &offload_section::pin_memory>();
}

void add_param(key_rows& t) {
  using param = offload_param_section;
  section_rows key(t, "zero_optimization.offload_param", "Stage 3: where parameter shards live.");
  key.itself().switched_by("zero_optimization.offload_param.device");
  add_shared<&zero::offload_param>(
      key, param_device(), "5",
      "Device nvme: units whose slices are read ahead of their gathers; not given: as many as the plan chooses.");
  key("buffer_size", integer, "100000000", "Elements of a swap buffer.")
      .at_least(0)
      .ignored("a window is as large as the slices of its unit")
      .into<section_of, &zero::offload_param, &param::buffer_size>();
  key("max_in_cpu", integer, "1000000000",
      "Device nvme: elements of a rank that stay in host memory too; not given: what the plan chooses.")
      .at_least(0)
      .into<section_of, &zero::offload_param, &param::max_in_cpu>()
      .tells<section_of, &zero::offload_param, &param::max_in_cpu_given>();
}

void add_optimizer(key_rows& t) {
  using optimizer = offload_optimizer_section;
  constexpr auto part = &zero::offload_optimizer;
  section_rows key(t, "zero_optimization.offload_optimizer",
                   "Stages 1 to 3: where moments live, and master weights that are not the parameters themselves.");
  key.itself().switched_by("zero_optimization.offload_optimizer.device");
  add_shared<part>(key, optimizer_device(), "4",
                   "Device nvme: buffers of a sub-group's size, of which four (gradient, master weights, two moments) "
                   "hold one; not given: as many as the plan chooses.");
  key("pipeline_read", boolean, "false", "Device nvme: read the next sub-group while one is updated.")
      .into<section_of, part, &optimizer::pipeline_read>()
      .tells<section_of, part, &optimizer::pipeline_given>();
  key("pipeline_write", boolean, "false", "Device nvme: write the last sub-group while one is updated.")
      .into<section_of, part, &optimizer::pipeline_write>()
      .tells<section_of, part, &optimizer::pipeline_given>();
  key("pipeline", boolean, "false", "DeepSpeed derives it from the two before.")
      .ignored("derived from pipeline_read and pipeline_write");
  key("fast_init", boolean, "false", "Derive master weights from parameter files.")
      .ignored("first values are written once, straight to where they live")
      .into<section_of, part, &optimizer::fast_init>();
  key("ratio", number, "1.0", "Stage 3: the share of sub-groups that leaves device memory, the last ones.")
      .at_least(0)
      .at_most(1)
      .into<section_of, part, &optimizer::ratio>();
  key("super_offload", boolean, "false",
      "Stage 3, device cpu: update a sub-group as soon as its gradients are there, and take that back on overflow; "
      "with gradient_clipping only if cluster.early_updates asks for it.")
      .into<section_of, part, &optimizer::super_offload>();
  key("cpuadam_cores_perc", number, "0.8", "The share of cores that updates with super_offload.")
      .at_least(0)
      .at_most(1)
      .ignored("the updates of a rank run on a thread of their own, which no core is set apart for")
      .into<section_of, part, &optimizer::cpuadam_cores_perc>();
}

template <std::optional<uint64_t> zenflow_section::*Interval>
hand_made interval_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.zero_optimization.zenflow.*Interval = integer_in(v)->magnitude;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            const auto& given = c.zero_optimization.zenflow.*Interval;
            return given ? fmt::to_string(*given) : "auto";
          }};
}

hand_made strategy_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.zero_optimization.zenflow.select = v.text == "step" ? select_strategy::step : select_strategy::epoch;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            const auto given = c.zero_optimization.zenflow.select;
            return given == select_strategy::automatic ? "auto" : given == select_strategy::step ? "step" : "epoch";
          }};
}

void add_zenflow(key_rows& t) {
  using zenflow = zenflow_section;
  constexpr auto part = &zero::zenflow;
  section_rows key(
      t, "zero_optimization.zenflow",
      "Device cpu: of every matrix, update the columns with the largest gradients in each step and the others later, "
      "with the mean of the deferred gradients; on where the section stands.");
  key("topk_ratio", number, "0.1", "The share of a matrix's columns that is updated in every step.")
      .above(0)
      .below(1)
      .into<section_of, part, &zenflow::topk_ratio>();
  key("select_strategy", text, "auto", "When to select anew; auto: after every fourth update of the others.")
      .one_of({"step", "epoch"})
      .by_hand(strategy_field());
  key("select_interval", integer, "auto", "Steps between selections, rounded up to a multiple of update_interval.")
      .at_least(1)
      .at_most(1e9)
      .by_hand(interval_field<&zenflow::select_interval>());
  key("update_interval", integer, "auto", "Steps between updates of the others; auto: 4.")
      .at_least(1)
      .at_most(1e9)
      .by_hand(interval_field<&zenflow::update_interval>());
  key("overlap_step", boolean, "false", "Update on the host while computing.")
      .ignored("the others are updated within the step that ends their interval")
      .into<section_of, part, &zenflow::overlap_step>();
  key("offload", boolean, "false", "Keep the states of selected gradients on the host.")
      .ignored("all states of a matrix lie in one place")
      .into<section_of, part, &zenflow::offload>();
  key("auto_ratio", number, "0.99", "What `auto` of update_interval aims at.")
      .at_least(0)
      .at_most(1)
      .ignored("auto is a fixed number of steps, so that runs can be repeated")
      .into<section_of, part, &zenflow::auto_ratio>();
  key("full_warm_up_rounds", integer, "0", "First steps that update everything.")
      .at_least(0)
      .at_most(1e9)
      .into<section_of, part, &zenflow::full_warm_up_rounds>();
  key("pt_reserved_cores_perc", number, "0.5", "The share of cores kept for everything else.")
      .at_least(0)
      .at_most(1)
      .ignored("no core is set apart for updates")
      .into<section_of, part, &zenflow::pt_reserved_cores_perc>();
  key("steps_per_epoch", integer, "none", "Set by DeepSpeed itself.")
      .at_least(1)
      .ignored("the length of an epoch is known here");
}

void add_aio(key_rows& t) {
  using aio = aio_section;
  section_rows key(t, "aio", "How swap files are read and written: io_uring, and threads where the kernel refuses it.");
  key("block_size", integer, "1048576", "Bytes of one request, a multiple of 4096; longer transfers are cut.")
      .at_least(1)
      .at_most(aio_block_size_max)
      .into<&job::aio, &aio::block_size>();
  key("queue_depth", integer, "8", "Requests in flight of one rank.")
      .at_least(1)
      .at_most(aio_queue_depth_max)
      .into<&job::aio, &aio::queue_depth>()
      .tells<&job::aio, &aio::queue_depth_given>();
  key("intra_op_parallelism", integer, "1",
      "Threads of a rank's queue where there is no io_uring, which needs one; not given: 4.")
      .also("num_threads", true)
      .at_least(1)
      .at_most(aio_threads_max)
      .into<&job::aio, &aio::intra_op_parallelism>()
      .tells<&job::aio, &aio::intra_op_parallelism_given>();
  key("thread_count", integer, "1", "The older name of intra_op_parallelism.")
      .at_least(1)
      .deprecated("intra_op_parallelism")
      .ignored("DeepSpeed reads intra_op_parallelism instead");
  key("single_submit", boolean, "false", "Submit requests one by one.").into<&job::aio, &aio::single_submit>();
  key("overlap_events", boolean, "true", "Submit while others complete; false: a queue's depth at a time.")
      .into<&job::aio, &aio::overlap_events>();
  key("use_gds", boolean, "false", "Files straight to and from the GPU.")
      .ignored("nothing here uses CUDA's cuFile: files move through host memory")
      .into<&job::aio, &aio::use_gds>();
}

/// Returns the accessors of a field for a key whose value is auto, true or false.
template <auto Field>
hand_made open_choice() {
  using choice = std::remove_cvref_t<decltype(std::declval<job>().*Field)>;
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.*Field = boolean_in(v) == true ? choice::always : choice::never;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            return c.*Field == choice::automatic ? "auto" : c.*Field == choice::always ? "true" : "false";
          }};
}

}  // namespace

void add_swap_keys(key_rows& t) {
  t.row("cluster.early_updates", boolean)
      .by_default("auto")
      .by_hand(open_choice<&job::early_updates>())
      .means(
          "Updates run during backward, ahead of the gradient's norm; a step that is skipped undoes them, one that "
          "clips also does them again. auto: with super_offload and no gradient_clipping, or with states in files; "
          "where those may be undone, without compile, as long as few enough of the last 8 steps were. "
          "States in files that may be undone have two places there: the swap files are twice as long.");
  t.row("cluster.swap_checksums", boolean)
      .by_default("true")
      .into<&job::swap_checksums>()
      .means("Hold every page read from a swap file against what was written.");
  t.row("cluster.swap_gradients", boolean)
      .by_default("auto")
      .by_hand(open_choice<&job::swap_gradients>())
      .means("Reduced gradients go to the swap files too; auto: where the budget of host memory asks for it.");
  t.row("cluster.offload_activations", text)
      .by_default("none")
      .one_of({"none", "cpu", "nvme"})
      .by_hand(activations_device())
      .means(
          "Where the inputs of recomputed units wait for backward: none (device memory), cpu (a copy; without "
          "accelerators from host memory to host memory), or nvme (the nvme_path of an offload section).");
  t.row("cluster.offload_activations_units", integer)
      .at_least(1)
      .at_most(1'000'000)
      .into<&job::offload_activations_units>()
      .means("How many recomputed units, from the first block on, offload_activations is for; none: all.");
}

void add_offload_keys(key_rows& t) {
  add_param(t);
  add_optimizer(t);
  add_zenflow(t);
  section_rows loco(t, "zero_optimization.zeropp_loco_param", "Error feedback of quantised gradients.",
                    capability::quantised_communication);
  loco.itself().where_it_stands().when(capability::quantised_communication);
  loco("err_beta", number, "0.8", "The share of the last error that is kept.").at_least(0).at_most(1);
  loco("reset_T", integer, "1024", "Steps after which errors are forgotten.").at_least(1);
  section_rows leaf(t, "zero_optimization.leaf_module", "Modules gathered whole.");
  for (const char* name : {"classes", "names", "name_suffixes"})
    leaf(name, texts, "[]", "Which modules.").ignored("units are the granularity");
  add_aio(t);
}

}  // namespace troupe::config
