// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import Larder

/// Responses that all workers share. One worker computes a response while the others wait for it; after
/// its lifetime clients get it for some time still, while one worker computes the next.
///
/// It wraps the handler of a route, and is not a middleware: the `next` of a middleware ends with its
/// request, but a response that is computed again in the background outlives it. Cache only responses
/// that depend on nothing but the URI: clients share them.
struct ResponseCache: Sendable {
  typealias Handler<R> = @Sendable (Request, ServiceContext) async throws -> R

  private let responses: PersistentCache<String, CachedResponse>
  private let lifetime: Duration
  private let refresh: Refresh

  init(_ store: SharedStore, lifetime: Duration, refresh: Refresh) {
    responses = PersistentCache(storage: store, namespace: "responses")
    self.lifetime = lifetime
    self.refresh = refresh
  }

  /// Returns a handler that answers from the cache, and calls another one for what is not cached.
  ///
  /// Errors, and responses of other status than 200, are not stored.
  func caching(_ handler: @escaping Handler<some ResponseGenerator>) -> Handler<Response> {
    { request, context in
      let key = request.uri.string
      let cached = try await responses.value(
        forKey: key, expires: .after(lifetime), refresh: refresh
      ) {
        let response = try await handler(request, context)
          .response(from: request, context: context)
        guard response.status == .ok else { throw HTTPError(response.status) }
        return try await CachedResponse(response)
      }
      return cached.response
    }
  }
}

/// A response as it is stored: its type, entity tag and content.
struct CachedResponse: Codable, Sendable {
  private let headers: [String: String]
  private let body: Data

  init(_ response: Response) async throws {
    let content = BodyBuffer()
    try await response.body.write(BodyCollector(content: content))
    body = Data(content.bytes)
    var headers: [String: String] = [:]
    // Not `set-cookie`: it belongs to one client.
    for name in [HTTPField.Name.contentType, .contentLanguage, .eTag, .lastModified] {
      headers[name.rawName] = response.headers[name]
    }
    self.headers = headers
  }

  var response: Response {
    var fields = HTTPFields()
    for (name, value) in headers {
      if let name = HTTPField.Name(name) { fields[name] = value }
    }
    return Response(
      status: .ok, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
  }
}
