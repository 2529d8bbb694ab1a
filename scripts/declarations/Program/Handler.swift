// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderSchema

// One type of a generated program: operations, and what must hold of their results.
//
// A query is compared with Swift's own filter over all objects that the program can decode, of one
// snapshot. Objects that it cannot decode are an error of a result that needs them, and are counted.

protocol Handler: Sendable {
  func perform(_ request: Request, _ store: ObjectStore, _ answer: inout Answer) throws
}

struct TypeHandler<Object: Subject>: Handler {
  func perform(_ request: Request, _ store: ObjectStore, _ answer: inout Answer) throws {
    switch request.operation {
    case .save: try store.save(Object(request.id, request.values))
    case .edit:
      let property = property(request.field)
      let view = try store.write { transaction -> [String: Value]? in
        guard var object = try transaction.object(Object.self, id: request.id) else { return nil }
        property.change!(&object, request.new)
        try transaction.save(object)
        return object.view
      }
      if let view { answer.views[request.id] = view }
    case .remove: answer.count = try store.delete(Object.self, id: request.id) ? 1 : 0
    case .object:
      if let object = try store.object(Object.self, id: request.id) {
        answer.views[request.id] = object.view
      }
    case .all: try all(store, &answer)
    case .probe: try probe(request, store, &answer)
    case .order: try order(request, store, &answer)
    case .update, .set, .removeWhere: try change(request, store, &answer)
    case .prepare: try store.prepare(Object.self)
    case .migrate: try store.migrate(Object.migrations)
    case .verify:
      answer.faults = try store.storage.verify().map { "verify: \($0)" }
    }
  }

  private func property(_ name: String) -> Property<Object> {
    Object.properties.first { $0.name == name }!
  }

  private func probe(named name: String) -> Probe<Object> {
    Object.properties.lazy.flatMap(\.probes).first { $0.name == name }!
  }

  private func number(_ error: ObjectError) -> Int { error.ids.first.flatMap { Int($0) } ?? -1 }

  private func all(_ store: ObjectStore, _ answer: inout Answer) throws {
    let query = store.objects(Object.self)
    let found = try query.fetchReadable()
    for object in found.objects { answer.views[object.id] = object.view }
    answer.unreadable = found.unreadable.map(number)
    answer.count = try query.count()
    if answer.count != found.objects.count + found.unreadable.count {
      answer.faults.append(
        "count() is \(answer.count), of \(found.objects.count) objects and "
          + "\(found.unreadable.count) that cannot be read")
    }
    for object in found.objects {
      guard let single = try store.object(Object.self, id: object.id), single.view == object.view
      else {
        answer.faults.append("object(id: \(object.id)) differs from the query's")
        continue
      }
    }
    for property in Object.properties {
      guard let results = property.results, found.unreadable.isEmpty else { continue }
      answer.faults += try results(query, found.objects)
    }
  }

  private func probe(
    _ request: Request, _ store: ObjectStore, _ answer: inout Answer
  ) throws {
    let probe = probe(named: request.probe)
    let everything = store.objects(Object.self)
    let query = probe.narrowed(everything, request.value)
    let (expected, found, count) = try store.read { snapshot in
      (
        try snapshot.fetch(everything.skippingUnreadable()).filter {
          probe.holds($0, request.value)
        }.map(\.id), try snapshot.fetch(query.skippingUnreadable()).map(\.id).sorted(),
        try snapshot.count(query.skippingUnreadable())
      )
    }
    let matching = expected.sorted()
    func fault(_ text: String) {
      let plan = (try? query.explain()) ?? "?"
      answer.faults.append(
        "\(request.probe) \(request.value): \(text), not \(matching) [\(plan)]")
    }
    if found != matching { fault("found \(found)") }
    if count != matching.count { fault("counted \(count)") }
    let unreadable = Set(try everything.fetchReadable().unreadable.map(number))
    do {
      let fetched = try query.fetch().map(\.id).sorted()
      if fetched != matching { fault("fetched \(fetched)") }
      let count = try query.count()
      if count != matching.count { fault("count() is \(count)") }
    } catch let error as ObjectError where error.code == .unreadable {
      if !unreadable.contains(number(error)) { fault("unreadable \(error.ids)") }
      let partial = try query.fetchReadable()
      let readable = partial.objects.map(\.id).sorted()
      if readable != matching { fault("fetchReadable() has \(readable)") }
      if !unreadable.isSuperset(of: partial.unreadable.map(number)) {
        fault("unreadable are \(partial.unreadable)")
      }
    }
    answer.ids = matching
  }

  private func order(
    _ request: Request, _ store: ObjectStore, _ answer: inout Answer
  ) throws {
    let property = property(request.field)
    let all = store.objects(Object.self).skippingUnreadable()
    let query = property.sorted!(all, request.descending)
    let (objects, limited, sorted) = try store.read { snapshot in
      (
        try snapshot.fetch(all), try snapshot.fetch(query.limit(request.limit)).map(\.id),
        try snapshot.fetch(query).map(\.id)
      )
    }
    let stored = request.descending ? objects.reversed() : objects
    let expected = stored.enumerated().sorted { left, right in
      let order = property.compare!(left.element, right.element)
      let sign = request.descending ? -order : order
      return sign == 0 ? left.offset < right.offset : sign < 0
    }.map(\.element.id)
    let plan = (try? query.explain()) ?? "?"
    if sorted != expected {
      answer.faults.append("sorted by \(request.field) \(sorted), not \(expected) [\(plan)]")
    }
    if limited != Array(expected.prefix(request.limit)) {
      answer.faults.append(
        "the first \(request.limit) by \(request.field) are \(limited) of \(expected) [\(plan)]")
    }
    var pages: [Int] = []
    var page = try query.page(size: 3)
    pages += page.objects.map(\.id)
    while let next = page.next {
      page = try query.page(after: next, size: 3)
      pages += page.objects.map(\.id)
    }
    if pages != expected {
      answer.faults.append("pages by \(request.field) \(pages), not \(expected) [\(plan)]")
    }
  }

  private func change(
    _ request: Request, _ store: ObjectStore, _ answer: inout Answer
  ) throws {
    let probe = probe(named: request.probe)
    let everything = store.objects(Object.self)
    let query = probe.narrowed(everything, request.value)
    answer.unreadable = try everything.fetchReadable().unreadable.map(number)
    answer.ids = try everything.skippingUnreadable().fetch()
      .filter { probe.holds($0, request.value) }.map(\.id)
    let plan = (try? query.explain()) ?? "?"
    switch request.operation {
    case .removeWhere: answer.count = try query.delete()
    case .set: answer.count = try property(request.field).set!(query, request.new)
    default:
      let property = property(request.field)
      answer.count = try query.update { property.change!(&$0, request.new) }
    }
    if answer.count != answer.ids.count, answer.unreadable.isEmpty {
      answer.faults.append(
        "\(request.operation) where \(request.probe) \(request.value) concerned \(answer.count) "
          + "objects, not \(answer.ids) [\(plan)]")
    }
    for id in answer.ids {
      if let object = try? store.object(Object.self, id: id) { answer.views[id] = object.view }
    }
  }
}

extension Answer.Failure {
  init(_ error: any Error) {
    switch error {
    case let error as ObjectError:
      self.init(code: error.code.rawValue, message: "\(error)", ids: error.ids)
    case let error as StoreError:
      self.init(code: "store \(error.code)", message: "\(error)", ids: [])
    default: self.init(code: "untyped", message: "\(type(of: error)): \(error)", ids: [])
    }
  }
}
