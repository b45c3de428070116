#include "apps/launch/launch_place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "apps/launch/host_list.hpp"
#include "core/number.hpp"

namespace troupe::apps {
namespace {

constexpr uint32_t tasks_max = 1U << 20U;

/// Reads a launcher's environment variables. Stores the first error, and returns 0 for a number that is wrong.
class variables {
 public:
  explicit variables(const environment& given) : given_(given) {}

  [[nodiscard]] const std::string* text(const std::string& name) const {
    const auto at = given_.find(name);
    return at == given_.end() || at->second.empty() ? nullptr : &at->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return text(name) != nullptr; }

  uint32_t number(const std::string& name, uint32_t otherwise, uint32_t at_least = 0, uint32_t at_most = tasks_max) {
    const std::string* const t = text(name);
    if (t == nullptr) return otherwise;
    if (const auto out = core::number_of<uint32_t>(*t); out && *out >= at_least && *out <= at_most) return *out;
    wrong(name, fmt::format("wanted a number from {} to {}, got `{}`", at_least, at_most, *t));
    return 0;
  }
  uint32_t needed(const std::string& name, const std::string& beside, uint32_t at_least = 0,
                  std::string_view way_out = {}) {
    if (!has(name)) wrong(name, fmt::format("is not set, but {} is, and needs it{}", beside, way_out));
    return number(name, 0, at_least);
  }
  /// Returns the first name whose variable is set; `one` if neither is.
  [[nodiscard]] std::string either(const std::string& one, const std::string& other) const {
    return has(one) || !has(other) ? one : other;
  }
  void less(const std::string& name, uint32_t value, const std::string& limit_name, uint32_t limit) {
    if (value >= limit) wrong(name, fmt::format("wanted less than {}, which is {}, got {}", limit_name, limit, value));
  }
  void wrong(const std::string& name, const std::string& what) {
    if (!wrong_) wrong_ = core::error{error_kind::bad_input, name + ": " + what};
  }
  template <class T>
  T or_wrong(const std::string& name, core::result<T> read) {
    if (read) return std::move(*read);
    wrong(name, read.error().text);
    return {};
  }
  [[nodiscard]] const std::optional<core::error>& found() const { return wrong_; }

 private:
  const environment& given_;
  std::optional<core::error> wrong_;
};

/// Reads the address of the first machine from MASTER_ADDR and MASTER_PORT, which any launcher may set.
void read_leader(variables& v, launch_place& p) {
  if (const auto* a = v.text("MASTER_ADDR")) {
    if (auto ok = check_host_name(*a); !ok) v.wrong("MASTER_ADDR", ok.error().text);
    p.leader = *a;
  }
  const uint32_t port = v.number("MASTER_PORT", p.port, 1, 65'535);
  // Under torchrun, its own store already listens at MASTER_PORT, so an adjacent port is used.
  const bool taken = v.has("TORCHELASTIC_RUN_ID") && v.has("MASTER_PORT");
  p.port = static_cast<uint16_t>(!taken ? port : port < 65'535 ? port + 1 : port - 1);
}

/// Computes the number of machines, the number of tasks on each, and this task's machine, from its rank and the number
/// of tasks on a machine. The ranks of a machine are either consecutive, or dealt to the machines in turns;
/// `p.local_rank` usually shows which. If `p.local_rank` is consistent with both, `in_turns` decides; if with neither,
/// records an error in `v`.
void lay_out(variables& v, launch_place& p, uint32_t rank, uint32_t size_here, const std::string& size_name,
             bool in_turns = false) {
  if (size_here == 0 || p.tasks % size_here != 0) {
    p.nodes = 0;
    return v.wrong(size_name, fmt::format("wanted the same number on every machine, a divisor of {}, {}, got {}",
                                          p.told_by, p.tasks, size_here));
  }
  p.nodes = p.tasks / size_here;
  if (p.nodes == 0) return;  // `v` has recorded the error that left `tasks` at 0
  const bool may_be_neighbours = rank % size_here == p.local_rank, may_be_in_turns = rank / p.nodes == p.local_rank;
  p.node = may_be_in_turns && (in_turns || !may_be_neighbours) ? rank % p.nodes : rank / size_here;
  if (!may_be_neighbours && !may_be_in_turns)
    v.wrong(size_name,
            fmt::format("wanted ranks in blocks on the machines, or in turns, got rank {} as number {} of {}", rank,
                        p.local_rank, size_here));
  p.tasks_of.assign(p.nodes, size_here);
}

launch_place torchrun(variables& v) {
  launch_place p{.launcher = v.has("TORCHELASTIC_RUN_ID") ? "torchrun"
                             : v.has("TROUPE_LAUNCH")     ? "troupe launch"
                                                          : "the launcher",
                 .told_by = "WORLD_SIZE"};
  const uint32_t rank = v.number("RANK", 0);
  p.tasks = v.needed("WORLD_SIZE", "RANK", 1);
  v.less("RANK", rank, "WORLD_SIZE", p.tasks);
  const std::string here = v.either("LOCAL_WORLD_SIZE", "LOCAL_SIZE"), group = v.either("GROUP_RANK", "CROSS_RANK"),
                    groups = v.either("GROUP_WORLD_SIZE", "CROSS_SIZE");
  if (v.has("LOCAL_RANK") && !v.has(here) && v.number("LOCAL_RANK", 0) > 0) v.needed(here, "LOCAL_RANK", 1);
  p.local_rank = v.number("LOCAL_RANK", 0);
  const uint32_t size_here = v.number(here, 1, 1);
  v.less("LOCAL_RANK", p.local_rank, here, size_here);
  if (size_here > p.tasks) v.wrong(here, fmt::format("wanted at most WORLD_SIZE, {}, got {}", p.tasks, size_here));
  if (!v.has(group)) {
    lay_out(v, p, rank, size_here, here);
  } else {
    p.node = v.number(group, 0);
    p.nodes = v.has(groups) ? v.number(groups, 0, 1) : p.tasks % size_here == 0 ? p.tasks / size_here : 0;
    if (p.nodes > 0) v.less(group, p.node, v.has(groups) ? groups : "the number of machines", p.nodes);
    if (p.nodes * size_here == p.tasks) p.tasks_of.assign(p.nodes, size_here);
  }
  return p;
}

launch_place srun(variables& v) {
  launch_place p{.launcher = "srun", .told_by = "SLURM_STEP_NUM_TASKS"};
  p.tasks = v.number("SLURM_STEP_NUM_TASKS", 1, 1);
  const uint32_t rank = v.needed("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  v.less("SLURM_PROCID", rank, "SLURM_STEP_NUM_TASKS", p.tasks);
  p.local_rank = v.needed("SLURM_LOCALID", "SLURM_PROCID");
  p.node = v.needed("SLURM_NODEID", "SLURM_PROCID");
  if (const auto* list = v.text("SLURM_STEP_NODELIST"))
    p.names = v.or_wrong("SLURM_STEP_NODELIST", expand_host_list(*list));
  if (const auto* list = v.text("SLURM_STEP_TASKS_PER_NODE"))
    p.tasks_of = v.or_wrong("SLURM_STEP_TASKS_PER_NODE", expand_counts(*list));
  p.nodes = v.number("SLURM_STEP_NUM_NODES", static_cast<uint32_t>(p.names.size()), 1);
  if (p.names.size() != p.nodes)
    v.wrong("SLURM_STEP_NODELIST", fmt::format("wanted names of {} nodes, got {}", p.nodes, p.names.size()));
  v.less("SLURM_NODEID", p.node, "SLURM_STEP_NUM_NODES", p.nodes);
  if (!p.names.empty()) p.leader = p.names.front();
  // All nodes of a Slurm job step compute the same port, and concurrent jobs usually compute different ones.
  const uint32_t job = v.number("SLURM_JOB_ID", 0, 0, ~0U), step = v.number("SLURM_STEP_ID", 0, 0, ~0U);
  p.port = static_cast<uint16_t>(20'000 + (job * 16 + step) % 10'000);
  return p;
}

/// Reads the variables of one kind of mpirun.
launch_place mpi(variables& v, const std::string& launcher, const std::string& size_name, const std::string& rank_name,
                 const std::string& local_name, const std::string& here_name) {
  launch_place p{.launcher = launcher, .told_by = size_name};
  p.tasks = v.needed(p.told_by, v.has(rank_name) ? rank_name : here_name, 1);
  const uint32_t rank = v.needed(rank_name, p.told_by);
  v.less(rank_name, rank, p.told_by, p.tasks);
  p.local_rank = v.needed(local_name, rank_name);
  const uint32_t size_here = v.needed(here_name, rank_name, 1);
  v.less(local_name, p.local_rank, here_name, size_here);
  // True if a policy of Open MPI's --map-by or --rank-by is `node`, by which ranks are dealt to the machines in turns.
  const auto is_node = [&](const char* name) {
    const auto* const policy = v.text(name);
    return policy != nullptr && policy->starts_with("node");
  };
  lay_out(v, p, rank, size_here, here_name,
          is_node("OMPI_MCA_rmaps_base_mapping_policy") || is_node("OMPI_MCA_rmaps_base_ranking_policy"));
  return p;
}

launch_place open_mpi(variables& v) {
  return mpi(v, "mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE");
}
launch_place mvapich(variables& v) {
  return mpi(v, "mpirun_rsh", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK",
             "MV2_COMM_WORLD_LOCAL_SIZE");
}
launch_place jsrun(variables& v) {
  return mpi(v, "jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK",
             "JSM_NAMESPACE_LOCAL_SIZE");
}

/// Returns the number of tasks of each machine for a launcher that sets the number of machines, but no number of tasks
/// per machine.
uint32_t even_share(variables& v, const launch_place& p, const std::string& nodes_name) {
  const uint32_t nodes = v.number(nodes_name, 1, 1);
  if (nodes > 0 && p.tasks % nodes == 0) return p.tasks / nodes;
  v.wrong(nodes_name, fmt::format("wanted the same number of tasks on every machine, a divisor of {}, {}, got {}",
                                  p.told_by, p.tasks, nodes));
  return 1;
}

launch_place flux(variables& v) {
  launch_place p{.launcher = "flux run", .told_by = "FLUX_JOB_SIZE"};
  p.tasks = v.needed(p.told_by, "FLUX_TASK_RANK", 1);
  const uint32_t rank = v.needed("FLUX_TASK_RANK", p.told_by);
  v.less("FLUX_TASK_RANK", rank, p.told_by, p.tasks);
  p.local_rank = v.needed("FLUX_TASK_LOCAL_ID", "FLUX_TASK_RANK");
  v.needed("FLUX_JOB_NNODES", "FLUX_TASK_RANK", 1);
  const uint32_t size_here = even_share(v, p, "FLUX_JOB_NNODES");
  v.less("FLUX_TASK_LOCAL_ID", p.local_rank, "the number of tasks on a machine", size_here);
  lay_out(v, p, rank, size_here, "FLUX_JOB_NNODES");
  return p;
}

/// Reads the variables of mpiexec of HPE Cray's PALS, which pals.h defines and which include the machine's number. The
/// number of all programs is only in PMI_SIZE, which is missing if PALS starts programs for PMIx.
launch_place pals(variables& v) {
  launch_place p{.launcher = "mpiexec of PALS", .told_by = "PMI_SIZE"};
  p.tasks = v.needed("PMI_SIZE", "PALS_RANKID", 1,
                     ": start mpiexec with PALS_PMI=pmi, or unset PALS_RANKID where PALS has not started this program");
  const uint32_t rank = v.needed("PALS_RANKID", "PMI_SIZE");
  v.less("PALS_RANKID", rank, p.told_by, p.tasks);
  p.local_rank = v.needed("PALS_LOCAL_RANKID", "PALS_RANKID");
  const uint32_t node = v.needed("PALS_NODEID", "PALS_RANKID");
  const std::string here = v.either("PMI_LOCAL_SIZE", v.either("PALS_LOCAL_SIZE", "MPI_LOCALNRANKS"));
  const uint32_t size_here = v.needed(here, "PALS_RANKID", 1);
  v.less("PALS_LOCAL_RANKID", p.local_rank, here, size_here);
  lay_out(v, p, rank, size_here, here);
  if (p.nodes > 0) v.less("PALS_NODEID", node, "the number of machines", p.nodes);
  p.node = node;
  return p;
}

/// Reads the variables of PMI (the process management interface of MPICH and others). If PALS, the launcher of HPE
/// Cray's machines, has set them, reads its own variables instead.
launch_place mpiexec(variables& v) {
  if (v.has("PALS_RANKID")) return pals(v);
  return mpi(v, "mpiexec", "PMI_SIZE", "PMI_RANK", v.either("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
             v.either("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"));
}

/// Reads the variables of a pod of an indexed job, which has one pod on each machine. The number of pods is WORLD_SIZE
/// of the pod template; if it is missing, the number of hosts in the job's file counts.
launch_place indexed_job(variables& v) {
  launch_place p{.launcher = "the indexed job", .told_by = "WORLD_SIZE"};
  p.node = v.number("JOB_COMPLETION_INDEX", 0);
  p.nodes = v.number("WORLD_SIZE", 0, 1);
  p.tasks = p.nodes;
  if (p.nodes == 0) return p;
  v.less("JOB_COMPLETION_INDEX", p.node, "WORLD_SIZE", p.nodes);
  p.tasks_of.assign(p.nodes, 1);
  const auto* const own = v.text("HOSTNAME");
  const std::string index = fmt::format("-{}", p.node);
  if (own == nullptr || !own->ends_with(index)) return p;
  for (uint32_t n = 0; n < p.nodes; ++n)
    p.names.push_back(fmt::format("{}-{}", own->substr(0, own->size() - index.size()), n));
  return p;
}

}  // namespace

environment own_environment() {
  environment out;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text = *one;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  out["HOSTNAME"] = own_host_name();
  return out;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name.front() != '\0' ? name.data() : "localhost";
}

namespace {

using names = std::vector<std::string>;

struct launcher_kind {
  names present;  ///< variables that are all set if this launcher has started the program
  launch_place (*read)(variables&);
  /// `sizes`: variables with the number of all programs; 1 means a single program. `ranks`: variables with the number
  /// of a program or of a machine; more than 0 means several programs
  names sizes, ranks;
  /// Variables with the number of programs on a machine, or of machines; more than 1 means several programs
  names shares{};
};

// Returns the launchers in the order in which their variables are looked for. A launcher precedes the launchers from
// which it may be started and whose variables it then inherits: mpirun, torchrun and Flux precede srun, and srun
// precedes a pod. PALS follows Slurm and Flux, which may set its variables, too.
const std::vector<launcher_kind>& launcher_kinds() {
  static const std::vector<launcher_kind> all = {
      {{"RANK"},
       torchrun,
       {"WORLD_SIZE"},
       {"RANK", "LOCAL_RANK", "GROUP_RANK", "CROSS_RANK"},
       {"LOCAL_WORLD_SIZE", "LOCAL_SIZE", "GROUP_WORLD_SIZE", "CROSS_SIZE"}},
      {{"OMPI_COMM_WORLD_SIZE"},
       open_mpi,
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {{"MV2_COMM_WORLD_SIZE"},
       mvapich,
       {"MV2_COMM_WORLD_SIZE"},
       {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
       {"MV2_COMM_WORLD_LOCAL_SIZE"}},
      {{"JSM_NAMESPACE_SIZE"},
       jsrun,
       {"JSM_NAMESPACE_SIZE"},
       {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"},
       {"JSM_NAMESPACE_LOCAL_SIZE"}},
      {{"FLUX_TASK_RANK"}, flux, {"FLUX_JOB_SIZE"}, {"FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID"}, {"FLUX_JOB_NNODES"}},
      {{"MPI_LOCALNRANKS"},
       mpiexec,
       {"PMI_SIZE"},
       {"PMI_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
       {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}},
      {{"SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
       srun,
       {"SLURM_STEP_NUM_TASKS"},
       {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"},
       {"SLURM_STEP_NUM_NODES"}},
      {{"PALS_RANKID"},
       pals,
       {"PMI_SIZE"},
       {"PALS_RANKID", "PALS_LOCAL_RANKID", "PALS_NODEID", "PMI_RANK", "PMI_LOCAL_RANK"},
       {"PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE", "MPI_LOCALNRANKS"}},
      {{"PMI_SIZE", "PMI_RANK"},
       mpiexec,
       {"PMI_SIZE"},
       {"PMI_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
       {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}},
      {{"JOB_COMPLETION_INDEX"}, indexed_job, {}, {}},
  };
  return all;
}

/// True if the variables of the launcher `kind` say that this program was started alone, for example in a shell that a
/// launcher has started: at least one is -1 (an older convention for "not distributed") or is a number of programs of
/// 1, and none implies a second program.
bool speaks_of_one(const environment& given, const launcher_kind& kind) {
  const variables v(given);
  bool is_said = false, is_contradicted = false;
  const auto look = [&](const names& all, std::string_view alone, bool says_it) {
    for (const auto& name : all) {
      const auto* const text = v.text(name);
      if (text == nullptr) continue;
      is_said = is_said || *text == "-1" || (says_it && *text == alone);
      is_contradicted = is_contradicted || (*text != "-1" && *text != alone);
    }
  };
  look(kind.sizes, "1", true);
  look(kind.ranks, "0", false);
  look(kind.shares, "1", false);
  return is_said && !is_contradicted;
}

/// Returns the number in an environment variable; 0 if the variable is missing or is not a number.
uint32_t number_or_0(const environment& given, const std::string& name) {
  const auto* const text = variables(given).text(name);
  return text == nullptr ? 0 : core::number_of<uint32_t>(*text).value_or(0);
}

/// Refuses to run if variables say that several programs were started, but no launcher's variables give this program
/// its number: each of the programs would train the whole job by itself.
core::result<void> check_alone(const environment& given) {
  struct sign {
    const char* name;
    uint32_t at_least;  ///< least value of the variable that implies that several programs were started
    const char* missing;
  };
  constexpr sign signs[] = {
      {"WORLD_SIZE", 2, "RANK, or JOB_COMPLETION_INDEX of an indexed job of Kubernetes"},
      {"LOCAL_RANK", 1, "RANK and WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", 1, "OMPI_COMM_WORLD_SIZE"},
      {"MV2_COMM_WORLD_RANK", 1, "MV2_COMM_WORLD_SIZE"},
      {"JSM_NAMESPACE_RANK", 1, "JSM_NAMESPACE_SIZE"},
      {"PMI_SIZE", 2, "PMI_RANK"},
      {"PMI_RANK", 1, "PMI_SIZE"},
      {"PMIX_RANK", 1, "RANK and WORLD_SIZE"},
      {"PET_NNODES", 2, "RANK and WORLD_SIZE, which torchrun sets"},
      {"PET_NODE_RANK", 1, "RANK and WORLD_SIZE, which torchrun sets"},
  };
  const auto refuse = [](const std::string& name, const std::string& value, const std::string& missing) {
    return core::fail(
        error_kind::bad_input,
        fmt::format("the environment: {}: several programs were started, as `{}` says: wanted {} too, got "
                    "none; unset {} if this program is the only one",
                    name, value, missing, name));
  };
  for (const auto& s : signs)
    if (number_or_0(given, s.name) >= s.at_least) return refuse(s.name, given.at(s.name), s.missing);
  // SageMaker's SM_HOSTS is a JSON list of machine names; a comma means several machines.
  const auto* const hosts = variables(given).text("SM_HOSTS");
  if (hosts != nullptr && hosts->find(',') != std::string::npos)
    return refuse("SM_HOSTS", *hosts, "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which SageMaker does not set");
  return {};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_variables(uint32_t node, uint32_t nodes,
                                                                  const std::string& leader, uint16_t port) {
  const std::string number = fmt::to_string(node), all = fmt::to_string(nodes);
  std::vector<std::pair<std::string, std::string>> out{
      {"TROUPE_LAUNCH", "1"}, {"TORCHELASTIC_RUN_ID", ""}, {"RANK", number},       {"WORLD_SIZE", all},
      {"LOCAL_RANK", "0"},    {"LOCAL_WORLD_SIZE", "1"},   {"GROUP_RANK", number}, {"GROUP_WORLD_SIZE", all}};
  if (nodes > 1) {
    out.emplace_back("MASTER_ADDR", leader);
    out.emplace_back("MASTER_PORT", fmt::to_string(port));
  }
  return out;
}

core::result<std::optional<launch_place>> read_launch_place(const environment& given) {
  for (const auto& kind : launcher_kinds()) {
    variables v(given);
    if (!std::ranges::all_of(kind.present, [&](const auto& name) { return v.has(name); })) continue;
    launch_place p = kind.read(v);
    if (v.found() && speaks_of_one(given, kind)) continue;
    if (!v.found() && p.tasks == 1) return std::nullopt;
    read_leader(v, p);
    if (v.found()) return core::fail(v.found()->in("the environment from " + p.launcher));
    return p;
  }
  TROUPE_TRY(check_alone(given));
  return std::nullopt;
}

}  // namespace troupe::apps
