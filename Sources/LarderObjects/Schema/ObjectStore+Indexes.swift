// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem

/// How far a long piece of work has come.
public struct ObjectProgress: Sendable, Hashable {
  /// What is being done, and to which type.
  public let step: String
  /// Objects looked at so far.
  public let done: Int
  /// How many objects there are.
  public let total: Int
}

extension ObjectStore {
  /// Declares a type and waits until its indexes are complete.
  ///
  /// An index that was declared after objects were stored is built in the background by the first
  /// save or query of the type in any process, in steps of at most a thousand objects, each of them a
  /// transaction; other processes read and write meanwhile. Until it is complete, queries scan, and
  /// `explain()` shows how far it is. One process builds at a time; when it is killed,
  /// another that uses the type continues. This call starts the build if none runs, and waits.
  ///
  /// ```swift
  /// try objects.prepare(Car.self) { print("\($0.step): \($0.done) of \($0.total)") }
  /// ```
  ///
  /// - Parameters:
  ///   - type: The type.
  ///   - limit: The longest wait. By default the wait lasts as long as the build makes steps.
  ///   - progress: Called on the calling thread when the build has advanced.
  /// - Throws: ``ObjectError``: `uniqueViolation` when stored objects contradict a new unique index, which
  ///   stays incomplete then, and is enforced for what is saved from now on; `buildTimeout` after
  ///   `limit`, naming the process that builds. `CancellationError` when the current task is
  ///   cancelled. The build continues after both.
  public func prepare<Object: Storable>(
    _ type: Object.Type, within limit: Duration? = nil,
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    let kind = kind(type)
    let isUnbuilt = try write { transaction in
      try kind.learnRelations(&transaction.entries)
      return kind.isUnbuilt(try kind.prepare(&transaction.entries))
    }
    guard isUnbuilt else { return }
    kind.startBuild(again: true)
    try kind.build.wait(within: limit) { stand in
      progress(
        ObjectProgress(
          step: "index \"\(stand.index)\" of \(kind.name)", done: stand.done, total: stand.total))
    } expired: { stand in
      let place = stand.map { "The index \"\($0.index)\" has \($0.done) of \($0.total) objects" }
      let builder = stand?.builder.map { "; process \($0) made the last step" }
      return ObjectError(
        .buildTimeout, type: kind.name,
        "\(place ?? "The indexes are not complete")\(builder ?? "") after "
          + "\(limit ?? .zero). The build continues; wait longer, or query without the index.",
        index: stand?.index)
    }
  }

  /// Declares a type and waits until its indexes are complete, without blocking a thread of Swift's
  /// pool; see the synchronous form.
  ///
  /// - Parameters:
  ///   - type: The type.
  ///   - limit: The longest wait. By default the wait lasts as long as the build makes steps.
  ///   - progress: Called on a thread of the library when the build has advanced.
  public func prepare<Object: Storable>(
    _ type: Object.Type, within limit: Duration? = nil,
    progress: @escaping @Sendable (ObjectProgress) -> Void = { _ in }
  ) async throws {
    try await BackgroundExecutor.shared.run {
      try self.prepare(type, within: limit, progress: progress)
    }
  }
}
