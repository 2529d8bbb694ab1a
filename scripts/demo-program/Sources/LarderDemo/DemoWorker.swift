// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Synchronization

// THE OUTPUT OF A WORKER, one line each:
//
//   ready              the worker has its list; it opens the store when it reads `go`
//   begin <document>   its closure runs: the result is not stored, and no other process computes it
//   end <document>     the result is computed, and committed if there is a store
//   found              a result came from the store
//   failed <document>  the document could not be read
//   done <digest>      the worker's own index of all documents

/// A worker process of the demo.
struct DemoWorker {
  /// The namespace of the demo in a store.
  static let namespace = "demo index"

  /// The file with the documents.
  let list: String
  /// The store; without one the worker indexes every document.
  let store: String?
  /// The seed of the order of the documents.
  let seed: UInt64

  func run() async throws {
    let documents = try JSONDecoder().decode(
      [Document].self, from: Data(contentsOf: URL(fileURLWithPath: list)))
    var generator = DemoRandomGenerator(seed: seed)
    let order = documents.indices.shuffled(using: &generator)
    ParentProcess.send("ready")
    guard ParentProcess.nextLine() == "go" else { return }
    let cache = try openCache()
    var index = FullTextIndex()
    for number in order {
      do {
        index.add(try await result(of: documents[number], number, cache))
      } catch is Document.Unreadable {
        ParentProcess.send("failed \(number)")
      } catch is CocoaError {
        ParentProcess.send("failed \(number)")
      }
    }
    ParentProcess.send("done \(index.digest)")
  }

  private func openCache() throws -> PersistentCache<String, DocumentIndex>? {
    guard let store else { return nil }
    let durability = try SharedStore.durability(ofStoreAt: store) ?? .cache
    let shared = try SharedStore(at: store, .init(durability: durability))
    return PersistentCache(storage: shared, namespace: Self.namespace)
  }

  private func result(
    of document: Document, _ number: Int, _ cache: PersistentCache<String, DocumentIndex>?
  ) async throws -> DocumentIndex {
    let isComputed = Atomic(false)
    let compute = { @Sendable () throws -> DocumentIndex in
      ParentProcess.send("begin \(number)")
      isComputed.store(true, ordering: .relaxed)
      return try document.index()
    }
    // The whole demo is this call: one of the processes computes, the others get its result.
    let index = try await cache?.value(forKey: document.key, compute) ?? compute()
    guard isComputed.load(ordering: .relaxed) else {
      ParentProcess.send("found")
      return index
    }
    // A result can be returned a moment before it is committed.
    try cache?.sync()
    ParentProcess.send("end \(number)")
    return index
  }
}
