// Rows of the key table for `cluster`: the processes of a job, their limits, and the reaction to the loss of one.
// Leaves combinations of these keys to cluster_rules.cpp, and the keys of swapping and of offloaded activations to
// keys_offload.cpp.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using processes = cluster_section;
constexpr auto cluster = &job::cluster;

hand_made processes_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            using enum process_choice;
            processes& all = c.cluster;
            const auto number_of_them = integer_in(v);
            all.choice = number_of_them ? number : v.text == "ranks" ? ranks : one;
            all.number = number_of_them ? static_cast<uint32_t>(number_of_them->magnitude) : 0;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            using enum process_choice;
            const processes& all = c.cluster;
            return all.choice == number ? fmt::format("{}", all.number) : all.choice == ranks ? "ranks" : "one";
          }};
}

hand_made on_loss_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.cluster.on_loss = v.text == "stop" ? loss_policy::stop : loss_policy::recover;
            return std::nullopt;
          },
          [](const job& c) -> std::string { return c.cluster.on_loss == loss_policy::stop ? "stop" : "recover"; }};
}

void add_process_keys(key_rows& t) {
  t.row("cluster.processes", text)
      .by_default("one")
      .one_of({"one", "ranks"})
      .or_number()
      .at_least(1)
      .at_most(65536)
      .by_hand(processes_field())
      .means(
          "The processes that share a job's ranks on a machine: one has them all, ranks gives each rank its own, a "
          "number as many, each with as many neighbouring ranks. Where they are several, a process that is lost takes "
          "no other along.");
  t.row("cluster.lost_after", seconds)
      .switched_by("cluster.processes")
      .by_default("5")
      .at_least(0.5)
      .at_most(3600)
      .into<cluster, &processes::lost_after_s>()
      .means("A process that is silent for so long is lost; one that ends is lost at once.");
  t.row("cluster.min_ranks", integer)
      .switched_by("cluster.processes")
      .by_default("1")
      .at_least(1)
      .at_most(1U << 28U)
      .into<cluster, &processes::min_ranks>()
      .means("A job that would go on with fewer ranks after a loss ends, and says so.");
  t.row("cluster.spares", integer)
      .switched_by("cluster.processes")
      .by_default("0")
      .at_least(0)
      .at_most(64)
      .into<cluster, &processes::spares>()
      .means("Further processes that have no ranks until they take the place of one that is lost.");
  t.row("cluster.on_loss", text)
      .switched_by("cluster.processes")
      .by_default("recover")
      .one_of({"recover", "stop"})
      .by_hand(on_loss_field())
      .means(
          "What comes of a loss: recover goes on with a spare in its place or with fewer data ranks, stop ends the "
          "run.");
}

void add_restart_keys(key_rows& t) {
  using restarts = restarts_section;
  t.row("cluster.restarts", section)
      .switched_by("cluster.processes")
      .means("How often and how soon lost processes are started again.");
  t.row("cluster.restarts.max", integer)
      .by_default("10")
      .at_least(0)
      .at_most(1'000'000)
      .into<cluster, &processes::restarts, &restarts::max>()
      .means("Losses of a run that it recovers from; one more stops it.");
  t.row("cluster.restarts.backoff", seconds)
      .by_default("0.5")
      .at_least(0)
      .at_most(30)
      .into<cluster, &processes::restarts, &restarts::backoff_s>()
      .means("Time before a process is started again, twice as long with each loss in the same place, up to 30 s.");
  t.row("cluster.restarts.processes", boolean)
      .by_default("true")
      .into<cluster, &processes::restarts, &restarts::processes>()
      .means("A lost process is started again and joins between two steps; false: its place stays empty.");
}

constexpr auto hosts = [](job_config & c) -> auto& { return c.cluster.hosts; };

void add_host_keys(key_rows& t) {
  t.row("cluster.hosts[]", section)
      .list_of(
          hosts, +[](const job& c) { return c.cluster.hosts.size(); })
      .means("The machines of a job, in the order of ranks; the first is the one on which it is started.");
  t.row("cluster.hosts[].name", text)
      .needed()
      .into_item<&cluster_host::name>(hosts)
      .means("As its certificate says: letters, digits and .-:_");
  t.row("cluster.hosts[].ranks", integer)
      .by_default("1")
      .at_least(1)
      .at_most(65536)
      .into_item<&cluster_host::ranks>(hosts)
      .means("Neighbouring ranks of the job that live there.");
  t.row("cluster.hosts[].bind", text)
      .by_default("")
      .into_item<&cluster_host::bind>(hosts)
      .means("The address on which its processes take bytes; by default the one by which it reaches the first host.");
  t.row("cluster.hosts[].spare", boolean)
      .by_default("false")
      .into_item<&cluster_host::is_spare>(hosts)
      .means(
          "It waits without ranks until it takes the place of a host that is lost, or that troupe replace names; its "
          "ranks are as many as it can take.");
  t.row("cluster.job", text)
      .by_default("")
      .into<cluster, &processes::job>()
      .means(
          "The job's name, which its agents have to say (troupe agent --job NAME): those of another job of the same "
          "authority are refused.");
  t.row("cluster.listen", text)
      .by_default("")
      .into<cluster, &processes::listen>()
      .means("HOST:PORT where the first host waits for the agents of the others: troupe agent --join HOST:PORT.");
  t.row("cluster.store", text)
      .by_default("")
      .into<cluster, &processes::store>()
      .means(
          "etcd://HOST:PORT, or several members of one etcd, etcd://HOST:PORT,HOST:PORT, which says who leads the job; "
          "etcds:// where it wants TLS, with certificates of the job's authority on both sides. Where the first host "
          "is lost, another one takes its part. Wants cluster.job, after which the key is named. "
          "By default the others wait for the first host.");
  t.row("cluster.interface", text)
      .by_default("")
      .into<cluster, &processes::interface>()
      .means(
          "The network interface on whose address each host takes connections, for hosts without a bind; by default "
          "the "
          "one that leads to the first host, there the one of listen.");
  using tls = tls_section;
  t.row("cluster.tls", section)
      .means(
          "What the machines of a job trust each other by; troupe cert makes it. {host} in a path is the name of the "
          "machine that reads it.");
  t.row("cluster.tls.ca", path)
      .into<cluster, &processes::tls, &tls::ca>()
      .means("The certificate of the authority that has issued those of all hosts.");
  t.row("cluster.tls.certificate", path)
      .into<cluster, &processes::tls, &tls::certificate>()
      .means("The certificate of the first host.");
  t.row("cluster.tls.key", path)
      .into<cluster, &processes::tls, &tls::key>()
      .means("Its key: a file that nobody else can read.");
}

hand_made page_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.cluster.page = v.text;
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            const bool is_port = integer_in(*make_scalar(node_kind::plain, c.cluster.page, {})).has_value();
            return is_port ? c.cluster.page : quoted(c.cluster.page);
          }};
}

void add_page_keys(key_rows& t) {
  t.row("cluster.page", text)
      .by_default("")
      .or_number()
      .at_least(0)
      .at_most(65535)
      .by_hand(page_field())
      .means(
          "Where the run shows itself while it lasts, to a browser and to Prometheus: a port of 127.0.0.1, or "
          "HOST:PORT; "
          "port 0: the system chooses, and the run says what. Beyond loopback a certificate and a token are wanted.");
  using page_tls = page_tls_section;
  t.row("cluster.page_tls", section)
      .switched_by("cluster.page")
      .means("What the page is served with beyond loopback, as https.");
  t.row("cluster.page_tls.certificate", path)
      .into<cluster, &processes::page_tls, &page_tls::certificate>()
      .means("Its certificate, and those that lead to its authority; by default cluster.tls.certificate.");
  t.row("cluster.page_tls.key", path)
      .into<cluster, &processes::page_tls, &page_tls::key>()
      .means("Its key: a file that nobody else can read; by default cluster.tls.key.");
  t.row("cluster.page_token_file", path)
      .switched_by("cluster.page")
      .into<cluster, &processes::page_token_file>()
      .means(
          "A file that nobody else can read (0600) with what a visitor must know: Authorization: Bearer TOKEN, or once "
          "?token=TOKEN behind the page's address.");
}

void add_limit_keys(key_rows& t) {
  t.row("cluster.stall_after", seconds)
      .by_default("0")
      .at_least(0)
      .at_most(86400)
      .into<&job::stall_after_s>()
      .means(
          "Silence after which a run ends with an error: every lane waits for another and none shows progress; "
          "0: 30 s. Who waits for a disk or for data is not silent, however long. Who computes has 60 s or 100 x the "
          "longest instruction of the steps before, before the first one 300 s or 100 x the predicted one, and never "
          "less than this.");
  t.row("cluster.host_memory_budget", bytes)
      .by_default("0")
      .at_least(0)
      .into<&job::host_memory_budget>()
      .means(
          "Host memory that all ranks of a process may use together for states: parameters, gradients, optimizer "
          "states, and staging (gathered parameters, windows onto swap files, copies for a checkpoint). Activations "
          "come on top. 0: no limit.");
  t.row("cluster.row_tile_bytes", bytes)
      .by_default("0")
      .at_least(0)
      .into<&job::row_tile_bytes>()
      .means(
          "Memory that the head's logits may take on a rank. If those of a micro-batch are larger, head and loss run "
          "in "
          "tiles of rows, at least 2,048 at a time, with the same bits; in training all of it in backward, where each "
          "tile's gradients are formed at once. Not with parallel.tensor. 0: all rows at once.");
  t.row("cluster.mlp_tile_bytes", bytes)
      .by_default("0")
      .at_least(0)
      .into<&job::mlp_tile_bytes>()
      .means(
          "Memory that what an MLP computes in front of its activation (Llama's gate and up together) may take on a "
          "rank. If that of a micro-batch is larger, MLPs run in tiles of rows, at least 2,048 at a time, with the "
          "same "
          "bits, and keep their input alone; backward multiplies it again. 0: all rows at once.");
}

}  // namespace

void add_cluster_keys(key_rows& t) {
  t.row("cluster", section).means("The processes of a job and their limits.");
  add_process_keys(t);
  add_host_keys(t);
  add_page_keys(t);
  add_limit_keys(t);
  add_swap_keys(t);
  add_restart_keys(t);
}

}  // namespace troupe::config
