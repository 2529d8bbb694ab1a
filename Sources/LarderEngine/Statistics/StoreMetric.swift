// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// One number of a store as monitoring systems see it: a name that never changes, and its values.
///
/// The list is the only source of these names: ``StoreStatistics/prometheusText()`` and the product
/// LarderMetrics both read them from it.
package struct StoreMetric: Sendable {
  package enum Kind: String, Sendable {
    /// A value that only grows; its name ends in `_total`.
    case counter
    /// A value that rises and falls.
    case gauge
  }

  /// A value, and the labels that distinguish it from others of the same name.
  package struct Sample: Sendable, Equatable {
    package let labels: [Label]
    package let value: Int
  }

  package struct Label: Sendable, Hashable {
    package let name: String
    package let value: String
    package init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  package let name: String
  package let kind: Kind
  /// The meaning of the metric, in a sentence.
  package let help: String
  /// Whether the metric describes the calling process, so that another process (the tool) cannot
  /// report it.
  package let isOfProcess: Bool
  /// Whether there is a sample for each namespace.
  package var isOfNamespaces: Bool { name.hasPrefix("larder_namespace_") }
  /// Whether only some stores have it: `.relaxed` or durable ones, or those with a remote server.
  package var isOfSomeStores: Bool {
    ["larder_sync_interval_milliseconds", "larder_unsynced_commits"].contains(name)
      || name.hasPrefix("larder_remote_") || name.hasPrefix("larder_log_")
  }
  package let samples: @Sendable (StoreStatistics) -> [Sample]

  private init(
    _ kind: Kind, _ name: String, _ help: String, isOfProcess: Bool = false,
    samples: @escaping @Sendable (StoreStatistics) -> [Sample]
  ) {
    self.name = name
    self.kind = kind
    self.help = help
    self.isOfProcess = isOfProcess
    self.samples = samples
  }

  private init(
    _ kind: Kind, _ name: String, _ help: String, isOfProcess: Bool = false,
    value: @escaping @Sendable (StoreStatistics) -> Int?
  ) {
    self.init(kind, name, help, isOfProcess: isOfProcess) { statistics in
      value(statistics).map { [Sample(labels: [], value: $0)] } ?? []
    }
  }

  /// Every measure, in the order of a dump.
  package static let all: [StoreMetric] = ofStores + ofRemotes

  private static let ofStores: [StoreMetric] = [
    StoreMetric(.counter, "larder_hits_total", "Reads that found a value, by where it was.") {
      [
        Sample(labels: [Label("tier", "memory")], value: $0.memoryHits),
        Sample(labels: [Label("tier", "store")], value: $0.storeHits),
      ]
    },
    StoreMetric(
      .counter, "larder_negative_hits_total", "Reads that found that a key has no value."
    ) { $0.negativeHits },
    StoreMetric(.counter, "larder_misses_total", "Reads that found nothing.") { $0.misses },
    StoreMetric(.counter, "larder_sets_total", "Entries written.") { $0.sets },
    StoreMetric(.counter, "larder_removals_total", "Entries removed by callers.") { $0.removals },
    StoreMetric(.counter, "larder_evictions_total", "Entries removed to keep to the budget.") {
      $0.evictions
    },
    StoreMetric(.counter, "larder_expirations_total", "Entries removed when their time was over.") {
      $0.expirations
    },
    StoreMetric(.counter, "larder_damaged_entries_total", "Entries found damaged.") {
      $0.damagedEntries
    },
    StoreMetric(.counter, "larder_commits_total", "Transactions committed.") { $0.commits },
    StoreMetric(.counter, "larder_computations_total", "Values computed under single flight.") {
      $0.computations
    },
    StoreMetric(
      .counter, "larder_refused_fills_total",
      "Computed values not stored, because the key was written meanwhile."
    ) { $0.rejectedFills },
    StoreMetric(
      .gauge, "larder_entries", "Stored entries, expired ones that were not removed yet included."
    ) { $0.entries },
    StoreMetric(
      .gauge, "larder_expired_entries",
      "Stored entries that have expired and were not removed yet, at most 100,000."
    ) { $0.expiredEntries },
    StoreMetric(.gauge, "larder_pinned_entries", "Entries that are never evicted.") {
      $0.pinnedEntries
    },
    StoreMetric(
      .gauge, "larder_pinned_bytes", "What the pinned entries count against the budget."
    ) {
      $0.pinnedBytes
    },
    StoreMetric(.gauge, "larder_negative_entries", "Entries that say that a key has no value.") {
      $0.negativeEntries
    },
    StoreMetric(
      .gauge, "larder_negative_bytes", "What the negative entries count against the budget."
    ) { $0.negativeBytes },
    StoreMetric(
      .gauge, "larder_stored_bytes", "What the stored entries count against the budget."
    ) { $0.bytes },
    StoreMetric(
      .gauge, "larder_object_bytes", "What the stored objects count against the budget."
    ) { $0.objectBytes },
    StoreMetric(
      .gauge, "larder_budget_bytes",
      "The most entries and objects may take; absent without a budget."
    ) { $0.budget },
    StoreMetric(.gauge, "larder_file_bytes", "The size of the data file.") { $0.fileBytes },
    StoreMetric(.gauge, "larder_namespace_entries", "Stored entries of a namespace.") {
      $0.namespaces.map {
        Sample(labels: [Label("namespace", $0.name)], value: $0.entries)
      }
    },
    StoreMetric(.gauge, "larder_namespace_bytes", "What a namespace counts against the budget.") {
      $0.namespaces.map {
        Sample(labels: [Label("namespace", $0.name)], value: $0.bytes)
      }
    },
    StoreMetric(.gauge, "larder_reader_slots", "Reader slots of the database in use.") {
      $0.readers
    },
    StoreMetric(.gauge, "larder_reader_slots_limit", "Reader slots of the database.") {
      $0.maximumReaders
    },
    StoreMetric(
      .gauge, "larder_oldest_reader_commits",
      "Commits since the snapshot of the oldest reader; 0 without one."
    ) { $0.oldestReader?.transactionsBehind ?? 0 },
    StoreMetric(.gauge, "larder_processes", "Processes that have the store open.") {
      $0.processes.count
    },
    StoreMetric(
      .gauge, "larder_generation",
      "The number of the store's files; it grows when they are replaced."
    ) { Int(clamping: $0.generation) },
    StoreMetric(
      .gauge, "larder_sync_interval_milliseconds",
      "How often a relaxed store is brought to the disk while it is written to; absent for others."
    ) { $0.syncInterval.map { Int(clamping: $0.milliseconds) } },
    StoreMetric(
      .gauge, "larder_unsynced_commits",
      "Commits of a relaxed store that are not on the disk yet; absent for others."
    ) { $0.unsyncedCommits },
    StoreMetric(
      .gauge, "larder_log_bytes",
      "The size of the log of a relaxed or durable store; absent for others."
    ) { $0.log?.fileBytes },
    StoreMetric(
      .gauge, "larder_log_commits",
      "Commits of a relaxed or durable store since its last checkpoint; absent for others."
    ) { $0.log?.commits },
    StoreMetric(
      .counter, "larder_log_syncs_total",
      "Syncs of the log of a relaxed or durable store, by all processes; absent for others."
    ) { $0.log?.syncs },
    StoreMetric(
      .gauge, "larder_pending_writes",
      "Writes behind of this process that are not committed yet.",
      isOfProcess: true
    ) { $0.pendingWrites },
  ]

  /// Those of caches with a remote server, with a sample for each server.
  private static let ofRemotes: [StoreMetric] = [
    StoreMetric(
      .counter, "larder_remote_reads_total",
      "Reads for which the server was needed: it had a value, none, or confirmed that of the host; or "
        + "it could not be reached, and that of the host was returned.",
      remote: { remote in
        [
          ("value", remote.fetchedHits), ("none", remote.fetchedMisses),
          ("confirmed", remote.revalidations), ("stale", remote.staleHits),
        ].map { (Label("outcome", $0), Int(clamping: $1)) }
      }),
    StoreMetric(.counter, "larder_remote_writes_total", "Values written to the server.") {
      $0.writes
    },
    StoreMetric(
      .counter, "larder_remote_invalidations_total", "Changed keys that the server has named."
    ) { $0.invalidations },
    StoreMetric(
      .counter, "larder_remote_failures_total", "Operations and connections that failed."
    ) { $0.failures },
    StoreMetric(
      .counter, "larder_remote_links_total",
      "Links to the server; each one has the values of the host confirmed again."
    ) { $0.connections },
    StoreMetric(
      .gauge, "larder_remote_age_milliseconds",
      "The time since all changes of the server are known to be in the store."
    ) { remote in remote.age.map { UInt64(clamping: $0.milliseconds) } },
    StoreMetric(
      .gauge, "larder_remote_round_trip_microseconds",
      "The time between the last PING to the server and its answer."
    ) { remote in UInt64(clamping: Clocks.nanoseconds(of: remote.roundTrip) / 1000) },
  ]

  private init(
    _ kind: Kind, _ name: String, _ help: String,
    remote: @escaping @Sendable (RemoteStatus) -> [(label: Label?, value: Int)]
  ) {
    self.init(kind, name, help) { statistics in
      statistics.remotes.flatMap { status in
        remote(status).map { label, value in
          Sample(
            labels: [Label("server", status.server)] + (label.map { [$0] } ?? []), value: value)
        }
      }
    }
  }

  private init(
    _ kind: Kind, _ name: String, _ help: String,
    _ value: @escaping @Sendable (RemoteStatus) -> UInt64?
  ) {
    self.init(
      kind, name, help, remote: { remote in value(remote).map { [(nil, Int(clamping: $0))] } ?? [] }
    )
  }
}
