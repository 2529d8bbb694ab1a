// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird
import HummingbirdLarder
import Larder
import LarderMetrics
import Logging
import Metrics
import ServiceLifecycle

/// Returns the services of a worker process, in the order in which they start.
func worker(_ options: ServiceOptions, logger: Logger) throws -> [any Service] {
  let metrics = MetricsRegistry()
  MetricsSystem.bootstrap(metrics)

  // All workers open the same directory. The timers of `recordingTimings` are those of this process.
  var storeOptions = StoreOptions(budget: .megabytes(64)).recordingTimings()
  storeOptions.onError = { error in logger.error("\(error)") }
  let store = try SharedStore(at: options.store, storeOptions)
  // However many responses are cached, they never evict the sessions, up to this size.
  try store.namespace(LarderPersistDriver.namespace).setLimits(.init(minimum: .megabytes(16)))

  let persist = LarderPersistDriver(store)
  let server = SharedPortServer(
    responder: routes(store, persist, metrics).buildResponder(), port: options.port, logger: logger
  )
  return [StoreService(store: store), persist, server]
}

/// Closes the store when the services that were started after it have stopped.
struct StoreService: Service {
  let store: SharedStore

  func run() async throws {
    // Closing commits the queued writes. A process that is killed instead loses only these.
    defer { store.close() }
    try await gracefulShutdown()
  }
}

func routes(
  _ store: SharedStore, _ persist: LarderPersistDriver, _ metrics: MetricsRegistry
) -> Router<ServiceContext> {
  let router = Router(context: ServiceContext.self)
  router.addMiddleware {
    MetricsMiddleware()
    WorkerHeader()
  }
  addReports(to: router, store)
  addSessions(to: router, persist)
  addNames(to: router, store, persist)
  router.get("/metrics") { _, _ in
    // The first part is the same in every worker, and the second that of the worker that answers.
    try store.statistics().prometheusText() + metrics.text(labels: [("worker", "\(getpid())")])
  }
  return router
}

/// A request with the address of its client.
struct ServiceContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let clientAddress: String

  init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    clientAddress = source.channel.remoteAddress?.ipAddress ?? "unknown"
  }
}
