// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// REFERENCE BOXES
//
// The struct of a relationship is one reference to a box, so that types can contain each other. A
// box was either assigned and holds the objects from the start, or decoded, holds ids, and loads
// the objects on first access. The state of a loaded box is final: it never shows another state.
// Assigning creates another box, which preserves value semantics.
//
// An assigned box keeps the objects that were loaded before. `car.parts.append(part)` reads all
// parts and assigns them all; only those that differ from the loaded ones are changes, and only
// these are saved with the car.
//
// A box that could not load its objects keeps the error and stays unchanged. A box that is assigned
// in its place keeps the error too and cannot be saved, because the program has never received the
// existing objects.
//
// A box that was created from ids has no objects and loads none: it links them. The saved object, once
// fetched, loads them.
//
// Chains of boxes can have ten thousand elements: a list deallocates them iteratively.

/// The storage of one relationship of one value.
final class ReferenceBox<Target: Storable>: Sendable {
  /// The loaded or assigned objects.
  struct Content: Sendable {
    var objects: [Target]
    /// The ids of missing objects.
    var missing: [String] = []
    /// The objects that were loaded before the assignment, by id.
    var baseline: [String: Target] = [:]
  }

  /// The ids referred to, in order.
  let ids: [String]
  /// The loader, or `nil` if the objects were assigned or only linked.
  let context: ReferenceLoader?
  /// Whether the box was created from ids, without objects.
  private let isLinked: Bool
  private let content: Mutex<Content?>
  /// The error of the last load; in an assigned box, the error of the box that it replaces.
  private let failure: Mutex<(any Error)?>

  init(
    assigned objects: [Target], baseline: [String: Target] = [:], after failure: (any Error)? = nil
  ) {
    ids = objects.map { ObjectTypeDescriptor<Target>.text(of: $0.id) }
    context = nil
    isLinked = false
    self.failure = Mutex(failure)
    content = Mutex(Content(objects: objects, baseline: baseline))
  }

  init(ids: [String], context: ReferenceLoader) {
    self.ids = ids
    self.context = context
    isLinked = false
    failure = Mutex(nil)
    content = Mutex(ids.isEmpty ? Content(objects: []) : nil)
  }

  /// Creates a box that links objects.
  init(linking ids: [Target.ID]) {
    self.ids = ids.map { ObjectTypeDescriptor<Target>.text(of: $0) }
    context = nil
    isLinked = true
    failure = Mutex(nil)
    content = Mutex(ids.isEmpty ? Content(objects: []) : nil)
  }

  deinit {
    guard content.withLock({ $0?.objects.isEmpty == false }) else { return }
    // Moves the content to the list, so that the end of this function destroys nothing.
    IterativeDeallocator.drop { content.withLock { $0.take() } }
  }

  var isAssigned: Bool { context == nil && !isLinked }
  var isLoaded: Bool { content.withLock { $0 != nil } }

  /// Returns the objects, loading them on first access.
  func load() throws -> Content {
    if let known = content.withLock({ $0 }) { return known }
    guard let context else {
      throw ObjectError(
        .notLoaded, type: Target.storedName,
        "The reference was created from ids, and its objects are in no store yet. Save the object, and "
          + "follow the reference of the one that is fetched.", ids: ids)
    }
    // Set the mark before reading: a caller that finds it unset shares only objects that are read
    // later.
    context.markLoaded()
    let (objects, missing) = try context.objects(Target.self, ids)
    return fill(objects, missing)
  }

  /// Returns the objects that can be loaded, and reports errors to the store.
  func objects() -> [Target] {
    if isLinked { return [] }
    do {
      return try load().objects
    } catch {
      context?.report(error)
      failure.withLock { $0 = error }
      guard let context, error is ObjectError, ids.count > 1 else { return [] }
      // A single object may cause the error, so load one by one.
      return ids.flatMap { id in (try? context.objects(Target.self, [id]).objects) ?? [] }
    }
  }

  /// The error of the last load, or `nil` if it succeeded.
  var loadError: (any Error)? {
    isAssigned || !isLoaded ? failure.withLock { $0 } : nil
  }

  /// Verifies that the ids can be stored.
  ///
  /// - Throws: ``ObjectError/Code/notLoaded`` if the box replaces one whose objects could not be
  ///   loaded.
  func requireKnown(_ codingPath: [any CodingKey]) throws {
    guard isAssigned, let error = failure.withLock({ $0 }) else { return }
    let path = codingPath.map(\.stringValue).joined(separator: ".")
    throw ObjectError(
      .notLoaded, type: Target.storedName,
      "\"\(path)\" was assigned after its objects could not be loaded, so saving it would drop "
        + "references that the program has not read. Fetch the parent again once they can be "
        + "loaded, or create a new parent. Cause: \(error)",
      ids: (error as? ObjectError)?.ids ?? [])
  }

  /// Stores the loaded objects, unless another thread has stored them first.
  @discardableResult
  func fill(_ objects: [Target], _ missing: [String]) -> Content {
    content.withLock { content in
      if let content { return content }
      let filled = Content(objects: objects, missing: missing)
      content = filled
      return filled
    }
  }

  /// Returns a box for other objects that replaces this one.
  func replaced(by objects: [Target]) -> ReferenceBox {
    let known = content.withLock { $0 }
    guard let known else {
      return ReferenceBox(assigned: objects, after: failure.withLock { $0 })
    }
    if isAssigned {
      return ReferenceBox(
        assigned: objects, baseline: known.baseline, after: failure.withLock { $0 })
    }
    var baseline: [String: Target] = [:]
    for object in known.objects {
      baseline[ObjectTypeDescriptor<Target>.text(of: object.id)] = object
    }
    return ReferenceBox(assigned: objects, baseline: baseline)
  }

  /// The assigned objects and the objects loaded before, or `nil` if the box was not assigned.
  var changes: Content? { isAssigned ? content.withLock { $0 } : nil }
}

/// Deallocates deeply nested values iteratively.
enum IterativeDeallocator {
  private struct State {
    var isBusy = false
    var waiting: [any Sendable] = []
  }

  private static let state = Mutex(State())

  static func drop(_ take: () -> (any Sendable)?) {
    let isFirst = state.withLock { state in
      if let value = take() { state.waiting.append(value) }
      defer { state.isBusy = true }
      return !state.isBusy
    }
    guard isFirst else { return }
    while dropOne() {}
  }

  private static func dropOne() -> Bool {
    // Destroyed at the end of this function, outside the lock.
    let next = state.withLock { state in
      let next = state.waiting.popLast()
      if next == nil { state.isBusy = false }
      return next
    }
    return next != nil
  }
}
