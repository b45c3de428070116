// The part of job_config that says which processes a job has and what comes of one that is lost: `cluster`, but for the
// limits and places of memory there, which are job_config's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// What `cluster.processes` says: one, ranks, or how many.
enum class process_choice : uint8_t { one, ranks, number };

/// What `cluster.on_loss` says.
enum class loss_policy : uint8_t { recover, stop };

struct restarts_section {  ///< `cluster.restarts`
  uint64_t max = 10;       ///< losses of a run that it recovers from
  double backoff_s = 0.5;  ///< key: backoff; before the first start in a place, then twice as long each time
  bool processes = true;   ///< a lost process is started again
};

struct cluster_host {     ///< of `cluster.hosts`
  std::string name;       ///< as its certificate has it
  uint64_t ranks = 1;     ///< neighbours
  std::string bind;       ///< the address on which its processes take bytes; empty: the one that the first host sees
  bool is_spare = false;  ///< key: spare; its ranks are as many as it takes from a host that is lost or replaced
};

struct tls_section {  ///< `cluster.tls`; absolute
  std::filesystem::path ca, certificate, key;

  /// Those of one machine: `{host}` in them is its name.
  [[nodiscard]] tls_section of(const std::string& host) const;
};

struct page_tls_section {  ///< `cluster.page_tls`; absolute; empty: as `cluster.tls` has them
  std::filesystem::path certificate, key;
};

/// Where a run's page is served. Only texts that cluster_rules.cpp takes.
struct page_place {
  std::string host;   ///< an address or a name, without brackets
  uint16_t port = 0;  ///< 0: the system chooses

  /// Whether only this machine reaches it.
  [[nodiscard]] bool is_loopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }
};
/// "8080", "0.0.0.0:8080", "[::1]:8080"; none for other texts.
std::optional<page_place> page_place_of(const std::string& text);

struct cluster_section {  ///< `cluster`
  process_choice choice = process_choice::one;
  uint32_t number = 0;      ///< of process_choice::number: how many, a divisor of the ranks
  double lost_after_s = 5;  ///< key: lost_after; silence after which a process is lost
  uint32_t min_ranks = 1;   ///< a job that would go on with fewer ends
  uint32_t spares = 0;      ///< processes beside processes_for(), without ranks
  loss_policy on_loss = loss_policy::recover;
  restarts_section restarts;
  std::string job;                  ///< which agents have to say; empty: they name none
  std::vector<cluster_host> hosts;  ///< empty: this machine alone; else the first is this one
  std::string listen;               ///< HOST:PORT where the first host awaits the others
  std::string store;      ///< etcd://HOST:PORT[,HOST:PORT...], which says who leads; empty: the first host does
  std::string interface;  ///< whose address each host takes connections on; empty: as `listen` and `bind` say
  tls_section tls;
  std::string page;  ///< PORT or HOST:PORT where the run shows itself; empty: nowhere
  page_tls_section page_tls;
  std::filesystem::path page_token_file;  ///< absolute; empty: everyone who reaches the page sees it

  /// The processes that hold so many ranks; 1 too where a process of its own has them all.
  [[nodiscard]] uint32_t processes_for(uint32_t ranks) const {
    return choice == process_choice::one ? 1 : choice == process_choice::ranks ? ranks : number;
  }
  /// Whether ranks live in processes apart from the one that a user starts, and may be lost.
  [[nodiscard]] bool is_on() const { return choice != process_choice::one; }
};

}  // namespace troupe::config
