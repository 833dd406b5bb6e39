/* Part of _frame_chunks.c: chunks above the cap, on Linux.

Linux takes back the memory of a freed chunk, but this part keeps the chunk's address for a later request (an emptied
chunk). Linux joins the chunks into one mapping, and munmap() would cut this mapping in two. With munmap(), 100,000
sleepers that wake in any order took 32 µs of CPU time each; with emptied chunks they take 25 µs. Also, once a process
has 65,530 mappings, munmap() fails, and the memory is lost. The price: a thread that has freed many chunks at once
keeps their addresses, though not their memory. */

/* Take the address of an emptied chunk. Returns: NULL if there is no emptied chunk. A page leaves the list before it is
freed, so that a fork in another thread copies an intact list. */
static void *
take_address(keeper *of)
{
    address_page *page = of->pages;
    void *address;

    if (page == NULL) {
        return NULL;
    }
    address = page->addresses[page->count - 1];
    count(&of->emptied, (size_t)-1);
    if (page->count > 1) {
        page->count--;
    }
    else {
        of->pages = page->next;
        atomic_thread_fence(memory_order_release);
        free(page);
    }
    return address;
}

/* Unmap all emptied chunks. */
static void
free_addresses(keeper *of)
{
    void *address;

    while ((address = take_address(of)) != NULL) {
        former.free(former.ctx, address, CHUNK);
    }
}

/* Give the memory of a chunk back to the system, and keep its address. Returns: 0 if the system cannot do so. */
static int
empty_chunk(keeper *to, void *chunk)
{
#ifdef __linux__
    address_page *page = to->pages;

    if (page_size == 0 || (uintptr_t)chunk % page_size != 0) {
        return 0;
    }
    if (page == NULL || page->count == ADDRESSES) {
        page = malloc(sizeof(address_page));
        if (page == NULL) {
            return 0;
        }
        page->next = to->pages;
        page->count = 0;
    }
    if (madvise(chunk, CHUNK, MADV_DONTNEED) != 0) { /* the memory is locked by mlockall() */
        if (page != to->pages) {
            free(page);
        }
        return 0;
    }
    page->addresses[page->count] = chunk;
    atomic_thread_fence(memory_order_release);
    page->count++;
    atomic_thread_fence(memory_order_release);
    to->pages = page;
    count(&to->emptied, 1);
    return 1;
#else
    (void)to;
    (void)chunk;
    return 0;
#endif
}
