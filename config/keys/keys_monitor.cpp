// DeepSpeed's keys of a run's reports: curves, timers, profiles and logs.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;

using job = job_config;

/// Names of collectives by which telemetry/figures/communication_log.cpp selects: DeepSpeed's names, also without
/// their endings, and the names of the plan's instructions.
const std::vector<std::string_view> operations = {"all_gather",
                                                  "all_gather_into_tensor",
                                                  "all_reduce",
                                                  "all_to_all",
                                                  "all_to_all_single",
                                                  "reduce_scatter",
                                                  "reduce_scatter_tensor",
                                                  "send_receive",
                                                  "agree",
                                                  "collect",
                                                  "exchange",
                                                  "gather",
                                                  "measure",
                                                  "publish",
                                                  "reduce",
                                                  "send",
                                                  "spread",
                                                  "tie",
                                                  "vote"};

template <auto Section>
void add_monitor(key_rows& t, const char* name, std::string_view meaning) {
  using monitor = monitor_section;
  section_rows key(t, name, meaning);
  key.itself().switched_by(std::string(name) + ".enabled");
  key("enabled", boolean, "false", "Write them.").template into<Section, &monitor::enabled>();
  key("output_path", path, "\"\"", "The folder; empty: the run's output folder.")
      .template into<Section, &monitor::output_path>();
  key("job_name", text, "DeepSpeedJobName", "The folder's name within it.")
      .template into<Section, &monitor::job_name>();
}

void add_profiler(key_rows& t) {
  using profiler = flops_profiler_section;
  section_rows flops(t, "flops_profiler", "A table of the model's operations, times and memory by unit.");
  flops.itself().switched_by("flops_profiler.enabled");
  flops("enabled", boolean, "false", "Make it.").into<&job::flops_profiler, &profiler::enabled>();
  flops("recompute_fwd_factor", number, "0.0", "Forwards recomputed in backward.")
      .at_least(0)
      .into<&job::flops_profiler, &profiler::recompute_fwd_factor>();
  flops("profile_step", integer, "1", "The step that is counted.")
      .at_least(0)
      .into<&job::flops_profiler, &profiler::profile_step>();
  flops("module_depth", integer, "-1", "Levels shown; -1: all.")
      .at_least(-1)
      .into<&job::flops_profiler, &profiler::module_depth>();
  flops("top_modules", integer, "1", "Modules shown of each level.")
      .at_least(0)
      .into<&job::flops_profiler, &profiler::top_modules>();
  flops("detailed", boolean, "true", "Show every module.").into<&job::flops_profiler, &profiler::detailed>();
  flops("output_file", path, "none", "Where to write; none: to the log.")
      .into<&job::flops_profiler, &profiler::output_file>();
}

void add_communication_log(key_rows& t) {
  using log = comms_logger_section;
  section_rows comms(t, "comms_logger", "A table of collectives: size, count, latency and bandwidth, from the trace.");
  comms.itself().switched_by("comms_logger.enabled");
  comms("enabled", boolean, "false", "Make it.").into<&job::comms_logger, &log::enabled>();
  comms("verbose", boolean, "false", "Each collective of its own as well.").into<&job::comms_logger, &log::verbose>();
  comms("prof_all", boolean, "true", "All operations.").into<&job::comms_logger, &log::prof_all>();
  comms("debug", boolean, "false", "With the caller's name.").into<&job::comms_logger, &log::debug>();
  comms("prof_ops", texts, "[]", "Only these operations, with prof_all false.")
      .one_of(operations)
      .into<&job::comms_logger, &log::prof_ops>();
}

void add_curves(key_rows& t) {
  add_monitor<&job::tensorboard>(t, "tensorboard", "Curves as TensorBoard event files.");
  add_monitor<&job::csv_monitor>(t, "csv_monitor", "Curves as CSV files, one a label.");
  using store = mlflow_section;
  section_rows mlflow(t, "mlflow", "Curves and settings as a run in a file store of MLflow.");
  mlflow.itself().switched_by("mlflow.enabled");
  mlflow("enabled", boolean, "false", "Write it.").into<&job::mlflow, &store::enabled>();
  mlflow("output_path", path, "\"\"", "The folder of the store mlruns; empty: the run's output folder.")
      .into<&job::mlflow, &store::output_path>();
  mlflow("experiment", text, "Default", "The experiment to which the run belongs.")
      .into<&job::mlflow, &store::experiment>();
  mlflow("run_name", text, "none", "The run's name; none: the name of the configuration file.")
      .into<&job::mlflow, &store::run_name>();
  using offline = wandb_section;
  section_rows wandb(t, "wandb", "Curves and settings as an offline run of Weights & Biases, for `wandb sync`.");
  wandb.itself().switched_by("wandb.enabled");
  wandb("enabled", boolean, "false", "Write it.").into<&job::wandb, &offline::enabled>();
  wandb("group", text, "none", "Runs that belong together.").into<&job::wandb, &offline::group>();
  wandb("team", text, "none", "Whose they are; none: the user's who uploads them.").into<&job::wandb, &offline::team>();
  wandb("project", text, "deepspeed", "What they belong to.").into<&job::wandb, &offline::project>();
  const auto no_service = "a run sends nothing to services; its curves are in files";
  section_rows comet(t, "comet", "Curves sent to Comet.");
  comet("enabled", boolean, "false", "Send them.").ignored(no_service);
  comet("samples_log_interval", integer, "100", "Samples between two points.").at_least(1).ignored(no_service);
  for (const char* name : {"project", "workspace", "api_key", "experiment_name", "experiment_key"})
    comet(name, text, "none", "How Comet files them.").ignored(no_service);
  comet("online", boolean, "none", "At once, not afterwards.").ignored(no_service);
  comet("mode", text, "none", "Go on with an experiment, or begin one.")
      .one_of({"get", "create", "get_or_create"})
      .ignored(no_service);
}

}  // namespace

void add_monitor_keys(key_rows& t) {
  t.row("wall_clock_breakdown", boolean)
      .by_default("false")
      .into<&job::wall_clock_breakdown>()
      .means("Log the time of each part of a step.");
  t.row("memory_breakdown", boolean)
      .by_default("false")
      .into<&job::memory_breakdown>()
      .means("Log memory at each part of a step.");
  t.row("dump_state", boolean)
      .by_default("false")
      .ignored("`troupe config explain` and the run's folder show it")
      .means("Log the engine's state at the start.");
  t.row("log_level", text).ignored("a run prints one progress line").means("How much to log.");
  add_curves(t);

  add_profiler(t);
  add_communication_log(t);

  t.row("timers", section).means("Timers.");
  section_rows throughput(t, "timers.throughput", "Samples per second.");
  throughput("enabled", boolean, "true", "Measure it.").ignored("the progress line always shows it");
  throughput("synchronized", boolean, "true", "Wait for the device to be exact.")
      .ignored("times come from the trace, which waits for nothing");

  section_rows tuning(t, "autotuning", "Search for a faster configuration.", capability::tuning);
  tuning("enabled", boolean, "false", "Search.");
  tuning("fast", boolean, "true", "Batch sizes only.");
  tuning("results_dir", path, "autotuning_results", "The folder of results.");
  tuning("exps_dir", path, "autotuning_exps", "The folder of trials.");
  tuning("overwrite", boolean, "true", "Over earlier results.");
  tuning("start_profile_step", integer, "3", "The first step that is timed.").at_least(0);
  tuning("end_profile_step", integer, "5", "The last one.").at_least(0);
  for (const char* name : {"start_step", "end_step"})
    tuning(name, integer, "none", "Of older versions.")
        .at_least(0)
        .ignored("start_profile_step and end_profile_step set it");
  tuning("metric", text, "throughput", "What to improve.")
      .one_of({"throughput", "latency", "flops", "forward", "step"});
  tuning("metric_path", path, "none", "Where a trial writes its result.");
  tuning("tuner_type", text, "gridsearch", "How to search.").one_of({"gridsearch", "random", "model_based"});
  tuning("tuner_early_stopping", integer, "5", "Trials without improvement until the end.").at_least(0);
  tuning("tuner_num_trials", integer, "50", "Trials at most.").at_least(0);
  tuning("arg_mappings", object, "none", "Command line options of a user's script.");
  tuning("mp_size", integer, "1", "Ranks that share a model.").at_least(1);
  tuning("max_train_batch_size", integer, "none", "The largest global batch.").at_least(1);
  tuning("min_train_batch_size", integer, "1", "The smallest.").at_least(1);
  tuning("max_train_micro_batch_size_per_gpu", integer, "1024", "The largest micro-batch.").at_least(1);
  tuning("min_train_micro_batch_size_per_gpu", integer, "1", "The smallest.").at_least(1);
  tuning("num_tuning_micro_batch_sizes", integer, "3", "Micro-batches that are tried.").at_least(1);
  tuning("model_info_path", path, "none", "Where the model is described.");
  section_rows info(t, "autotuning.model_info", "The model, as the search needs it.", capability::tuning);
  info("profile", boolean, "false", "Find it out.");
  for (const char* name : {"num_params", "hidden_size", "num_layers"})
    info(name, integer, "none", "The model's size.").at_least(1);
}

}  // namespace troupe::config
