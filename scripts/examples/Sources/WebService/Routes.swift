// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import Larder

/// Reports that are slow to compute. All workers together compute one every two seconds at most, and
/// no client waits for any but the first.
func addReports(to router: Router<ServiceContext>, _ store: SharedStore) {
  let computed = SharedCounter(storage: store, name: "computed reports")
  let cache = ResponseCache(
    store, lifetime: .seconds(2), refresh: Refresh(staleFor: .seconds(600)))
  router.get(
    "/reports/:name",
    use: cache.caching { _, context in
      let name = try context.parameters.require("name")
      guard name != "missing" else { throw HTTPError(.notFound) }
      // In place of a slow query.
      try await Task.sleep(for: .seconds(1))
      let number = try await computed.increment()
      return Report(name: name, number: number, worker: getpid())
    })
}

struct Report: ResponseCodable {
  let name: String
  /// The number of the computation, counted over all workers.
  let number: Int64
  /// The process that computed it.
  let worker: Int32
}

struct Session: ResponseCodable {
  var user: String
  var visits = 0
}

/// Sessions that every worker reads and writes.
func addSessions(to router: Router<ServiceContext>, _ persist: some PersistDriver) {
  @Sendable func key(_ request: Request) throws -> String {
    guard let id = request.cookies["session"]?.value else { throw HTTPError(.unauthorized) }
    return "session/\(id)"
  }

  router.post("/session") { request, _ in
    let user = String(buffer: try await request.body.collect(upTo: 1000))
    let id = UUID().uuidString
    try await persist.create(
      key: "session/\(id)", value: Session(user: user), expires: .seconds(3600))
    var response = Response(status: .created)
    response.setCookie(Cookie(name: "session", value: id, path: "/", sameSite: .lax))
    return response
  }
  router.get("/session") { request, _ in
    guard var session = try await persist.get(key: key(request), as: Session.self) else {
      throw HTTPError(.unauthorized)
    }
    // Two requests at once may count as one: a PersistDriver has no method that changes a value.
    session.visits += 1
    // Without `expires`, the session ends when it would have ended before.
    try await persist.set(key: key(request), value: session)
    return session
  }
  router.delete("/session") { request, _ in
    try await persist.remove(key: key(request))
    return HTTPResponse.Status.noContent
  }
}

/// Names that are given once: of several clients that request one, at any worker, one gets it. A client
/// may request five at once, and then one every five seconds.
func addNames(
  to router: Router<ServiceContext>, _ store: SharedStore, _ persist: some PersistDriver
) {
  router.group("/names")
    .addMiddleware { RateLimitMiddleware(store, rate: 0.2, burst: 5) }
    .put(":name") { _, context in
      let name = try context.parameters.require("name")
      do {
        try await persist.create(key: "name/\(name)", value: context.clientAddress)
        return HTTPResponse.Status.created
      } catch let error as PersistError where error == .duplicate {
        throw HTTPError(.conflict, message: "The name \(name) is taken.")
      }
    }
}

/// Names the worker that answers, in a header.
struct WorkerHeader: RouterMiddleware {
  func handle(
    _ request: Request, context: ServiceContext,
    next: (Request, ServiceContext) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    response.headers[HTTPField.Name("x-worker")!] = "\(getpid())"
    return response
  }
}
